"""What LangGraph streams, as JSON.

A chunk keeps the harness's own shape: {"ns": [...], "mode": "messages"|"updates"|"tasks", "data": ...}. Which
fields of a message are kept is decided here, once; an adapter on the other side reads exactly these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Interrupt

STREAM_MODES = ["messages", "updates", "tasks"]

_OF_A_MESSAGE = (
    "id",
    "name",
    "content",
    "tool_calls",
    "invalid_tool_calls",
    "tool_call_chunks",
    "tool_call_id",
    "status",
    "artifact",
    "usage_metadata",
    "additional_kwargs",
    "response_metadata",
    "chunk_position",
)
_OF_ITS_METADATA = (
    "langgraph_node",
    "langgraph_step",
    "langgraph_checkpoint_ns",
    "lc_source",
    "lc_agent_name",
    "ls_provider",
    "ls_model_name",
    "ls_agent_type",
    "run_id",
    "tags",
)
_OF_A_COMMAND = ("update", "goto", "graph", "resume")
_REPR_LIMIT = 200


def chunk(item: tuple[Any, ...]) -> dict[str, Any]:
    """One item of `astream(..., stream_mode=[...], subgraphs=True)`."""
    namespace, mode, data = item
    match mode:
        case "messages":
            message, metadata = data
            body: Any = [_message(message), {key: to_json(metadata[key]) for key in _OF_ITS_METADATA if key in metadata}]
        case "tasks":
            body = {key: _task_input(value) if key == "input" else to_json(value) for key, value in data.items() if key != "metadata"}
        case _:
            body = to_json(data)
    return {"ns": list(namespace), "mode": mode, "data": body}


def to_json(value: Any) -> Any:
    """A native value as JSON; what has no JSON form is named, with the start of its text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case BaseMessage():
            return _message(value)
        case Interrupt():
            return {"type": "Interrupt", "id": value.id, "value": to_json(value.value)}
        case Command():
            return {"type": "Command"} | {key: to_json(part) for key in _OF_A_COMMAND if (part := getattr(value, key, None))}
        case Mapping():
            return {str(key): to_json(part) for key, part in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json(part) for part in value]
    if type(value).__name__ == "Overwrite":
        return {"type": "Overwrite", "value": to_json(value.value)}
    return {"type": type(value).__name__, "repr": str(value)[:_REPR_LIMIT]}


def _message(message: BaseMessage) -> dict[str, Any]:
    out: dict[str, Any] = {"type": type(message).__name__}
    for name in _OF_A_MESSAGE:
        value = getattr(message, name, None)
        empty = value is None or value == {} or (value == [] and name != "content")
        if not empty:
            out[name] = to_json(value)
    return out


def _task_input(value: Any) -> Any:
    """A model's task is given the whole conversation: it is counted, not repeated."""
    if isinstance(value, Mapping) and "messages" in value:
        call = {key: to_json(value[key]) for key in ("tool_call", "__type") if key in value}
        return call | {"messages": {"count": len(value["messages"])}}
    return to_json(value)
