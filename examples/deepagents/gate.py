"""Tools that the gateway runs: to LangChain a tool like any other, which asks instead of doing.

    build: create_deep_agent(tools=[gated("greet", "Greets somebody.", schema)], …)

The gateway reads the arguments, holds them against the schema, has a person asked where it is configured so, writes the start
down and runs the tool; what it says comes back here. docs/tools.md and docs/worker-protocol.md of Causeway say more.
"""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from typing import Any, Callable

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import interrupt

ALLOWED = ["approve", "edit", "reject"]
CURRENT: ContextVar[Gate | None] = ContextVar("gate", default=None)


class Gate:
    """The gateway's side of one turn: lines out, answers in."""

    def __init__(self, run_id: str, offer: dict[str, Any] | None, write: Callable[..., None]) -> None:
        self.run_id = run_id
        self.offer = offer
        self.write = write
        self.answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.decided: set[str] = set()  # calls that wait for the answer this turn brings

    def offers(self, name: str) -> bool:
        return self.offer is not None and name in self.offer["names"]

    async def ask(self, call_id: str, name: str, arguments: Any) -> dict[str, Any]:
        answer = asyncio.get_running_loop().create_future()
        self.answers[call_id] = answer
        generation = self.offer["generation"] if self.offer else None
        self.write(
            kind="tool", run_id=self.run_id, call_id=call_id, name=name, arguments=json.dumps(arguments), generation=generation
        )
        return await answer

    def deliver(self, answer: dict[str, Any]) -> None:
        waiting = self.answers.pop(str(answer.get("call_id")), None)
        if waiting and not waiting.done():
            waiting.set_result(answer)


class Gated(BaseTool):
    """A tool whose work the gateway does. `ainvoke` is taken whole, for the call's id and its arguments as they are."""

    def _run(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError("the gateway runs this tool; it needs the id of its call")

    async def ainvoke(self, input: Any, config: Any = None, **_: Any) -> ToolMessage:  # noqa: A002: LangChain's name
        call_id, arguments = input["id"], input["args"]

        def says(text: str, well: bool = False) -> ToolMessage:
            return ToolMessage(text, tool_call_id=call_id, name=self.name, status="success" if well else "error")

        gate = CURRENT.get()
        if gate is None or not gate.offers(self.name):
            return says("The gateway does not offer this tool.")
        answer = None
        if call_id not in gate.decided:
            answer = await gate.ask(call_id, self.name, arguments)
        if answer is None or answer["status"] == "approval_required":
            gate.decided.discard(call_id)
            request = {"name": self.name, "args": arguments, "description": self.description}
            review = {"action_name": self.name, "allowed_decisions": ALLOWED}
            # Pauses the turn; in the turn that brings the answer the tool is called again, and this returns it.
            decision = interrupt({"action_requests": [request], "review_configs": [review], "gate_call": call_id})["decisions"][0]
            if decision["type"] == "reject":
                return says(decision.get("message") or "A person refused this call.")
            if decision["type"] == "edit":
                arguments = decision["edited_action"]["args"]
            answer = await gate.ask(call_id, self.name, arguments)
        if answer["status"] == "ok":
            return says(answer["result"], well=True)
        return says("\n".join(filter(None, (answer.get("message"), answer.get("output")))))


def gated(name: str, description: str, schema: dict[str, Any]) -> BaseTool:
    return Gated(name=name, description=description, args_schema=schema)


def waiting_calls(state: Any) -> set[str]:
    """The calls of the gate that a paused state waits with."""
    values = [pause.value for task in state.tasks for pause in task.interrupts]
    return {value["gate_call"] for value in values if isinstance(value, dict) and "gate_call" in value}
