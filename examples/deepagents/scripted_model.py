"""A chat model that says what a JSON script tells it to: no network, no key, the same words every time.

Everything behind it is real: deepagents, LangGraph, the tools. Give your own agent a real model (see README.md).

The script of an agent is a list of answers, an answer a list of steps, played in order:

    {"text": "…"}                        streamed in pieces of `piece` characters, each after `delay` seconds
    {"reasoning": "…"}                   a reasoning block (style "blocks")
    {"tool": {"id", "name", "args"}}     a tool call, its arguments streamed as fragments of JSON; "raw_args" for broken ones
    {"usage": {"input_tokens", "output_tokens"}}
    {"sleep": seconds}   {"raise": "message"}   {"end": "finish reason"}

Which answer is due is read from the conversation (how many answers it holds), never from the model's memory: a
paused run goes on in another process. `{n}` in the id of a call becomes a mark of that place in the conversation, `{message}` in a
text or in the arguments of a call the last thing the user said, `{history}` in a text all that the user said.

Two styles of content, as providers have them: "string" (OpenAI) and "blocks" (Anthropic, Bedrock).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


class ScriptedModelError(RuntimeError):
    """What a {"raise": …} step raises, where a provider's client would fail."""


class ScriptedChatModel(BaseChatModel):
    agent: str = "root"
    script: dict[str, list]  # agent, or "agent@part of its task" → answers
    plays: list[dict] = []  # [{"when": [words], "answers": […]}]: by what the user said last; only for "root"
    style: str = "string"
    piece: int = 7
    delay: float = 0.0
    model_name: str = "scripted-model"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedChatModel:
        return self

    def _stream(self, messages, stop=None, run_manager=None, **_: Any) -> Iterator[ChatGenerationChunk]:
        for wait, chunk in self._perform(messages):
            time.sleep(wait)
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(self, messages, stop=None, run_manager=None, **_: Any) -> AsyncIterator[ChatGenerationChunk]:
        for wait, chunk in self._perform(messages):
            await asyncio.sleep(wait)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _generate(self, messages, stop=None, run_manager=None, **_: Any) -> ChatResult:
        chunks = [chunk.message for _, chunk in self._perform(messages)]
        whole = chunks[0]
        for part in chunks[1:]:
            whole = whole + part
        return ChatResult(generations=[ChatGeneration(message=message_chunk_to_message(whole))])

    def _perform(self, messages: list[BaseMessage]) -> Iterator[tuple[float, ChatGenerationChunk]]:
        for wait, message in _Performance(self, messages).chunks():
            yield wait, ChatGenerationChunk(message=message)


class _Performance:
    """One answer, from the conversation so far."""

    def __init__(self, model: ScriptedChatModel, messages: list[BaseMessage]) -> None:
        self.model = model
        humans = [i for i, m in enumerate(messages) if m.type == "human"]
        self.said = messages[humans[-1]].text if humans else ""
        self.history = " | ".join(messages[at].text for at in humans)
        task = messages[humans[0]].text if humans else ""
        # Ids of messages are unique in a conversation, also in one whose history was summed up.
        so_far = "".join(f"{m.id}{m.text}" for m in messages)
        self.mark = hashlib.sha256(so_far.encode("utf-8", "replace")).hexdigest()[:8]
        if model.plays and model.agent == "root":
            recent = messages[humans[-1] :] if humans else messages
            answers = self._play()
        else:
            recent = messages
            answers = self._part(task)
        number = sum(isinstance(m, AIMessage) for m in recent)
        self.steps = answers[number] if number < len(answers) else [{"text": "(the script ends here)"}]
        self.message_id = f"msg-{model.agent}-{number + 1}-{self.mark}"

    def _play(self) -> list:
        said = self.said.lower()
        for play in self.model.plays:
            words = play.get("when", [])
            if not words or any(word in said for word in words):
                return play["answers"]
        return []

    def _part(self, task: str) -> list:
        for name, answers in self.model.script.items():
            agent, _, needle = name.partition("@")
            if needle and agent == self.model.agent and needle in task:
                return answers
        return self.model.script.get(self.model.agent, [])

    def chunks(self) -> Iterator[tuple[float, AIMessageChunk]]:
        blocks = self.model.style == "blocks"
        usage: dict[str, int] | None = None
        reason: str | None = None
        pause, index, calls = 0.0, 0, 0
        for step in self.steps:
            wait = pause or step.get("delay", self.model.delay)
            match step:
                case {"sleep": seconds}:
                    pause += seconds
                    continue
                case {"usage": counts}:
                    usage = counts
                    continue
                case {"end": word}:
                    reason = word
                    continue
                case {"raise": message}:
                    raise ScriptedModelError(message.replace("{message}", self.said))
                case {"text": text}:
                    text = text.replace("{message}", self.said).replace("{history}", self.history)
                    for piece in _cut(text, self.model.piece):
                        yield wait, self._chunk([{"type": "text", "text": piece, "index": index}] if blocks else piece)
                        wait = step.get("delay", self.model.delay)
                case {"reasoning": text}:
                    for piece in _cut(text, self.model.piece):
                        yield wait, self._chunk([{"type": "thinking", "thinking": piece, "index": index}])
                        wait = self.model.delay
                    yield 0.0, self._chunk([{"type": "thinking", "signature": "c2lnbmF0dXJl", "index": index}])
                case {"tool": call}:
                    # Providers with content blocks number the block, the others the call.
                    for part in self._call(call, index if blocks else calls, blocks):
                        yield wait, part
                        wait = self.model.delay
                    calls += 1
            index += 1
            pause = 0.0
        finish = reason or ("tool_calls" if calls else "stop")
        last: dict[str, Any] = {"response_metadata": {"model_name": self.model.model_name, "finish_reason": finish}}
        if usage:
            last["usage_metadata"] = usage | {"total_tokens": usage["input_tokens"] + usage["output_tokens"]}
        yield pause, self._chunk([] if blocks else "", chunk_position="last", **last)

    def _call(self, call: dict[str, Any], slot: int, blocks: bool) -> Iterator[AIMessageChunk]:
        ident = call["id"].replace("{n}", self.mark)
        said = json.dumps(self.said)[1:-1]
        raw = call["raw_args"] if "raw_args" in call else json.dumps(call["args"]).replace("{message}", said)
        head: Any = [{"type": "tool_use", "id": ident, "name": call["name"], "input": {}, "index": slot}] if blocks else ""
        yield self._chunk(head, tool_call_chunks=[_fragment(slot, "", ident, call["name"])])
        for piece in _cut(raw, max(self.model.piece, 11)):
            content: Any = [{"type": "input_json_delta", "partial_json": piece, "index": slot}] if blocks else ""
            yield self._chunk(content, tool_call_chunks=[_fragment(slot, piece)])

    def _chunk(self, content: Any, **more: Any) -> AIMessageChunk:
        return AIMessageChunk(content=content, id=self.message_id, **more)


def _fragment(slot: int, args: str, ident: str | None = None, name: str | None = None) -> dict[str, Any]:
    return {"name": name, "args": args, "id": ident, "index": slot, "type": "tool_call_chunk"}


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]
