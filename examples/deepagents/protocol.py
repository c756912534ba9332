"""The lines of worker protocol 1: requests parsed once, answers as bytes.

Nothing in here knows LangGraph. A request that exists is valid; what is not becomes a `Refusal`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

PROTOCOL = 1
LINE_LIMIT = 8 * 1024 * 1024  # bytes, with the newline, in both directions
THREAD_ID_LIMIT = 200  # bytes; a head is a thread id and a checkpoint id, and must fit into 256


class Refusal(Exception):
    """A request or a line that is turned down; `word` is one of the protocol's `error_type`s."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


@dataclass(frozen=True)
class TurnRequest:
    """A `run` or a `resume`: the same thing but for what the graph is given."""

    op: str
    run_id: str
    thread_id: str
    base: str | None
    text: str = ""
    context: dict[str, Any] | None = None
    files: dict[str, str] = field(default_factory=dict)
    resume: Any = None
    tools: dict[str, Any] | None = None


@dataclass(frozen=True)
class ToolResult:
    answer: dict[str, Any]


@dataclass(frozen=True)
class Cancel:
    run_id: str


@dataclass(frozen=True)
class Forget:
    thread_ids: tuple[str, ...]


@dataclass(frozen=True)
class Exit:
    pass


def read_object(line: bytes) -> dict[str, Any]:
    """The object on a line. Raises `Refusal`."""
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refusal("bad_request", "the line is not JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise Refusal("bad_request", "the line is not an object with an op")
    return value


def parse(request: dict[str, Any]) -> TurnRequest | ToolResult | Cancel | Forget | Exit:
    """The request an object stands for. Raises `Refusal` with what is wrong with it."""
    match request["op"]:
        case "exit":
            return Exit()
        case "forget":
            ids = request.get("thread_ids")
            _require(isinstance(ids, list) and all(isinstance(i, str) for i in ids), "forget needs a list of thread_ids")
            return Forget(tuple(ids))
        case "tool_result":
            return ToolResult(request)
        case "cancel":
            _require(run_id_of(request) is not None, "cancel needs a run_id")
            return Cancel(request["run_id"])
        case "run" | "resume":
            return _turn(request)
    raise Refusal("bad_request", "the op is not known")


def run_id_of(request: dict[str, Any]) -> str | None:
    """The run a request names, if it does so rightly."""
    run_id = request.get("run_id")
    return run_id if isinstance(run_id, str) and run_id else None


def _turn(request: dict[str, Any]) -> TurnRequest:
    _require(run_id_of(request) is not None, "a turn needs a run_id")
    thread_id = request.get("thread_id")
    _require(_is_thread_id(thread_id), f"thread_id must be printable, 1 to {THREAD_ID_LIMIT} bytes")
    # A base that was left out must not be taken for the empty one.
    base = request.get("base", ...)
    _require(base is None or isinstance(base, str), "base must be null or a head")
    offer = request.get("tools")
    _require(offer is None or (isinstance(offer, dict) and isinstance(offer.get("names"), list)), "tools must be an offer")
    common = {"op": request["op"], "run_id": request["run_id"], "thread_id": thread_id, "base": base, "tools": offer}
    if request["op"] == "resume":
        _require(base is not None and "resume" in request, "resume needs a base and a resume value")
        return TurnRequest(**common, resume=request["resume"])
    given = request.get("input")
    _require(isinstance(given, dict) and isinstance(given.get("text"), str), "input.text must be a string")
    context, files = given.get("context"), given.get("files")
    _require(context is None or isinstance(context, dict), "input.context must be an object")
    files = {} if files is None else files
    _require(isinstance(files, dict) and all(isinstance(t, str) for t in files.values()), "input.files must map paths to texts")
    return TurnRequest(**common, text=given["text"], context=context, files=files)


def _is_thread_id(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and 0 < len(value.encode("utf-8", "replace")) <= THREAD_ID_LIMIT


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise Refusal("bad_request", reason)


# ── answers ──────────────────────────────────────────────────────────────────


def hello(harness: str, versions: dict[str, str], restore: bool) -> bytes:
    return line(kind="hello", protocol=PROTOCOL, harness=harness, versions=versions, restore=restore, forget=True, tools=True)


def error(run_id: str | None, exc: BaseException, state: dict[str, Any] | None = None) -> bytes:
    """The closing line of a turn that failed. The message is for the engine's log, so it is kept short."""
    word = exc.word if isinstance(exc, Refusal) else type(exc).__name__
    more = {} if state is None else {"state": state}
    return line(kind="error", run_id=run_id, error_type=word, message=str(exc)[:500], **more)


def line(**keys: Any) -> bytes:
    """One line of output. Raises `Refusal` when it is longer than the protocol allows."""
    try:
        data = json.dumps(keys, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair: its other half may come with the next chunk, so it is passed on, escaped.
        data = json.dumps(keys, allow_nan=False).encode("ascii")
    if len(data) >= LINE_LIMIT:
        raise Refusal("line_too_long", f"a {keys['kind']} line of {len(data) + 1} bytes")
    return data + b"\n"
