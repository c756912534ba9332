"""The tools of the scripted agents, by name. Put your own beside your own agent; nothing here is special."""

from __future__ import annotations

import asyncio
import json
import time

from langchain_core.tools import tool
from langgraph.types import interrupt


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(0.01)
    return f"{city}: 18 C, light rain"


@tool
async def slow_lookup(key: str, seconds: float = 0.3) -> str:
    """Look a value up, slowly."""
    await asyncio.sleep(seconds)
    return f"value of {key}"


@tool
async def restart_service(name: str, force: bool = False) -> str:
    """Restart a service. The scripted agents ask a person first."""
    return f"restarted {name} (force={force})"


@tool
async def failing_tool(query: str) -> str:
    """Fails, with an exception."""
    raise ValueError(f"backend refused: {query}")


@tool
async def wrapped_failing_tool(query: str) -> str:
    """Fails, but says so in an ordinary result."""
    return f"ERROR: backend refused: {query}"


@tool
async def big_result(lines: int) -> str:
    """As many lines as are asked for."""
    return "\n".join(f"row {i}: ok" for i in range(lines))


@tool
async def block_result(topic: str) -> list:
    """A result of content blocks, as MCP tools have it."""
    return [{"type": "text", "text": f"notes on {topic}: "}, {"type": "text", "text": "all good"}]


@tool
def request_user_input(prompt: str, fields: list[dict]) -> str:
    """Ask a person to fill in a form. It is gated; the answer comes as an edit that carries the values."""
    values = {f["field_name"]: f["value"] for f in fields if f.get("value") is not None}
    return json.dumps(values) if values else "Waiting for user input"


@tool
def ask_user(question: str) -> str:
    """Ask a person, with a plain interrupt()."""
    return f"user said: {interrupt({'kind': 'ask_user', 'question': question})}"


@tool
def ask_twice(first: str, second: str) -> str:
    """Ask a person two things, one after the other: two pauses that share a checkpoint."""
    answers = [interrupt({"kind": "ask_user", "question": question}) for question in (first, second)]
    return f"user said: {' and '.join(answers)}"


@tool
async def note(path: str, line: str, seconds: float = 0.0) -> str:
    """Append a line to a file, after a while. What really ran can be counted there."""
    await asyncio.sleep(seconds)
    return _append(path, line)


@tool
def blocking_note(path: str, line: str, seconds: float = 0.0) -> str:
    """The same in a thread of its own, which no cancel can stop."""
    time.sleep(seconds)
    return _append(path, line)


@tool
async def stubborn_note(path: str, line: str, seconds: float = 0.0) -> str:
    """The same, and it takes the first cancel for a hiccup."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(seconds)
    return _append(path, line)


def _append(path: str, line: str) -> str:
    print(f"noted {line}", flush=True)  # goes to stderr: a tool that prints must not break the protocol
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    return f"noted {line}"


BY_NAME = {
    each.name: each
    for each in (
        get_weather,
        slow_lookup,
        restart_service,
        failing_tool,
        wrapped_failing_tool,
        big_result,
        block_result,
        request_user_input,
        ask_user,
        ask_twice,
        note,
        blocking_note,
        stubborn_note,
    )
}
