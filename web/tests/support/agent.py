"""The worker that the inspector's tests talk to: the template's protocol with an agent that does what it is told.

Python's standard library only, so that it always runs. What a message asks for is told by its first word.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Iterator

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/template-python"))

import worker  # noqa: E402
from worker import Event, Turn, approval, ask, entered, event, exited, failed, finished, started, text  # noqa: E402

# What a text may hold to do harm: markup, marks that turn the direction, terminal escapes.
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)> \u202egnissorc\u202c"
    " \u001b[31mred\u001b[0m ${7*7} \u2066x\u2069 </textarea></option>"
)
NAME = "<script>tool()</script>"
LARGE = "w" * 65_000


def agent(turn: Turn) -> Iterator[Event]:
    if turn.answer is not None:
        yield from answered(turn)
        return
    word, _, rest = turn.text.partition(" ")
    if word == "approve":
        yield from text(turn, "This needs your approval.")
        yield from asked(turn, [("restart_service", {"name": "api", "replicas": 2, "id": 9007199254740993})])
    elif word == "several":
        yield from asked(turn, [("restart_service", {"name": f"service-{n}", "replicas": n}) for n in range(1, 4)])
    elif word == "form":
        fields = [
            {"field_name": "environment", "field_type": "select", "field_values": ["dev", "prod"], "required": True},
            {"field_name": "replicas", "field_type": "integer", "default_value": "2", "field_description": "How many."},
            {"field_name": "drain", "field_type": "boolean"},
            {
                "field_name": "zones",
                "field_type": "multiselect",
                "field_values": [{"value": 1, "label": "north"}, {"value": 2, "label": "south"}],
            },
            {"field_name": "note", "field_type": "textarea"},
        ]
        yield from form(turn, "Where shall I deploy it?", fields)
    elif word == "slow":
        message = turn.new_id("msg")
        yield event("text.started", message_id=message, role="assistant")
        yield event("text.delta", message_id=message, delta="The first half.")
        yield started(turn.new_id("call"), "slow_lookup", {"seconds": 600})
        turn.wait(600)
    elif word == "team":
        yield from team(turn, rest or "mild")
    elif word == "large":
        call = turn.new_id("call")
        yield started(call, "list_rows", {})
        yield finished(call, "\n".join(f"row {n}" for n in range(20_000)))
    elif word == "many":
        for n in range(1_500):
            call = turn.new_id("call")
            yield started(call, "count", {"n": n})
            yield finished(call, f"counted {n}")
    elif word == "hostile":
        yield from hostile(turn, rest)
    elif word == "word":
        yield from text(turn, "w" * 1_000_000)
    else:
        yield from text(turn, f"You said: {turn.text}")


def team(turn: Turn, weather: str) -> Iterator[Event]:
    message = turn.new_id("msg")
    yield event("reasoning.started", message_id=message)
    yield event("reasoning.delta", message_id=message, delta="Somebody should look it up.")
    yield event("reasoning.finished", message_id=message)
    yield from text(turn, "I will ask the researcher.")
    call = turn.new_id("call")
    yield started(call, "task", {"city": "Oslo", "id": 9007199254740993})
    yield entered([call], "researcher", call)
    inner = turn.new_id("call")
    yield started(inner, "get_weather", {"city": "Oslo"}, [call])
    yield finished(inner, f"It is {weather} in Oslo.", [call])
    yield from text(turn, f"Oslo is {weather}.", [call])
    yield exited([call], "researcher", call)
    yield finished(call, f"Oslo is {weather}.")
    yield from text(turn, f"The researcher says: {weather}.")
    if weather != "mild":
        extra = turn.new_id("call")
        yield started(extra, "get_clothes", {"for": weather})
        yield finished(extra, "a coat")


def hostile(turn: Turn, rest: str) -> Iterator[Event]:
    message = turn.new_id("msg")
    yield event("reasoning.started", message_id=message)
    yield event("reasoning.delta", message_id=message, delta=HOSTILE)
    yield event("reasoning.finished", message_id=message)
    yield from text(turn, HOSTILE)
    call = turn.new_id("call")
    yield started(call, NAME, {HOSTILE: [HOSTILE, LARGE]})
    yield entered([call], NAME, call)
    yield from text(turn, HOSTILE, [call])
    yield exited([call], NAME, call)
    yield finished(call, HOSTILE + LARGE)
    other = turn.new_id("call")
    yield started(other, NAME, {})
    yield failed(other, HOSTILE)
    yield event("warning", code="odd_thing", message="<script>alert(2)</script>")
    if rest == "approve":
        yield from asked(turn, [(NAME, {HOSTILE: LARGE})])
    elif rest == "form":
        fields = [
            {"field_name": "<b>a</b>", "field_type": "<i>t</i>", "field_label": HOSTILE, "field_description": HOSTILE},
            {"field_name": "pick", "field_type": "select", "field_values": [HOSTILE, LARGE]},
        ]
        yield from form(turn, HOSTILE + "w" * 8_000, fields)


def form(turn: Turn, prompt: str, fields: list[dict[str, Any]]) -> Iterator[Event]:
    pause = turn.new_id("ask")
    turn.state["asked"] = {"pause": pause, "calls": []}
    yield ask(pause, prompt=prompt, fields=fields)


def asked(turn: Turn, wanted: list[tuple[str, dict[str, Any]]]) -> Iterator[Event]:
    calls = [(turn.new_id("call"), name, arguments) for name, arguments in wanted]
    pause = turn.new_id("ask")
    turn.state["asked"] = {"pause": pause, "calls": calls}
    for call, name, arguments in calls:
        yield started(call, name, arguments)
    yield ask(pause, tool_approvals=[approval(call, name, arguments) for call, name, arguments in calls])


def answered(turn: Turn) -> Iterator[Event]:
    answer, before = turn.answer, turn.state.pop("asked")
    decisions = {one["tool_call_id"]: one for one in answer.get("decisions", [])}
    for call, name, arguments in before["calls"]:
        decision = decisions[call]
        if decision["decision"] != "reject":
            yield finished(call, f"{name} ran with {json.dumps(decision.get('edited_args') or arguments)}")
    if "values" in answer:
        yield from text(turn, f"The values were {json.dumps(answer['values'])}.")
    else:
        yield from text(turn, "It was decided." if decisions else "It was dismissed.")


if __name__ == "__main__":
    worker.agent = agent
    worker.main()
