"""A worker to start from: worker protocol 1 with canonical events. Python's standard library only.

    python worker.py --db conversation.sqlite       # states live there; a later process goes on from them
    python worker.py                                # states live in memory: no run starts from another

Put your agent in the place of `agent` below. The rest is the protocol: one turn at a time, one closing line each, a
cancel taken at once, every state kept under a head of its own. `causeway conform` tells whether it still is.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sqlite3
import sys
import threading
from typing import Any, BinaryIO, Iterator

LINE_LIMIT = 8 * 1024 * 1024  # bytes, in both directions
LEAVE_WITHIN = 4.0  # seconds after the end of stdin; the protocol grants 5
Event = dict[str, Any]


# ── the agent: the part to replace ───────────────────────────────────────────


def agent(turn: Turn) -> Iterator[Event]:
    """What happens in a turn, as canonical events. `turn.state` is what the conversation remembers: any JSON object.

    To ask a person, yield `ask(…)` last; the answer comes as `turn.answer` in a turn of its own. Where time passes,
    call `turn.wait`, so that a cancel is noticed. An exception ends the turn as failed; its text goes nowhere.
    """
    if turn.answer is not None:
        asked = turn.state.pop("asked")
        if turn.answer["interrupt_id"] != asked["pause"]:
            raise LookupError("this pause was not asked for")
        if "gated" in asked:
            yield from decided(turn, turn.answer["decisions"][0], *asked["gated"])
            return
        yield from answered(turn, turn.answer, asked["call"])
        return
    turn.state.setdefault("said", []).append(turn.text)
    said = turn.text
    if "approval" in said:
        yield from text(turn, "That needs your approval.")
        call, pause = turn.new_id("call"), turn.new_id("ask")
        turn.state["asked"] = {"pause": pause, "call": call}
        yield started(call, "restart_service", {"name": "api"})
        yield ask(pause, tool_approvals=[approval(call, "restart_service", {"name": "api"})])
    elif "form" in said:
        pause = turn.new_id("ask")
        turn.state["asked"] = {"pause": pause, "call": None}
        fields = [{"field_name": "city", "field_type": "text", "required": True}]
        yield ask(pause, prompt="Which city?", fields=fields)
    elif "gated" in said and turn.offers("greet"):
        yield from gated(turn, turn.new_id("call"), "greet", {"name": "Ada"})
    elif "tool_error" in said:  # before "tool", which it holds
        call = turn.new_id("call")
        yield started(call, "get_weather", {"city": "Atlantis"})
        yield failed(call, "There is no such city.")
        yield from text(turn, "I could not find it.")
    elif "subagent" in said:
        call = turn.new_id("call")
        yield started(call, "task", {"what": "compare"})
        yield entered([call], "researcher", call)
        inner = turn.new_id("call")
        yield started(inner, "get_weather", {"city": "Oslo"}, [call])
        yield finished(inner, "18 degrees", [call])
        yield from text(turn, "Oslo is mild.", [call])
        yield exited([call], "researcher", call)
        yield finished(call, "Oslo is mild.")
        yield from text(turn, "The researcher says: mild.")
    elif "large" in said:
        call = turn.new_id("call")
        yield started(call, "list_rows", {})
        yield finished(call, "\n".join(f"row {n}" for n in range(20_000)))
        yield from text(turn, "Those are all.")
    elif "tool" in said:
        call = turn.new_id("call")
        yield started(call, "get_weather", {})  # arguments in pieces; whole ones are given to `started`
        yield event("tool.arguments.delta", tool_call_id=call, delta='{"city":')
        yield event("tool.arguments.delta", tool_call_id=call, delta=' "Paris"}')
        yield finished(call, "18 degrees")
        yield from text(turn, "It is mild in Paris.")
        yield event("usage.updated", input_tokens=30, output_tokens=12, cost=0.001, currency="USD", final=True)
    elif "reasoning" in said:
        message = turn.new_id("msg")
        yield event("reasoning.started", message_id=message)
        yield event("reasoning.delta", message_id=message, delta="Let me think.")
        yield event("reasoning.finished", message_id=message)
        yield from text(turn, "Forty-two.")
    elif "slow" in said:
        yield from text(turn, "This takes a while.")
        call = turn.new_id("call")
        yield started(call, "slow_lookup", {"seconds": 30})
        turn.wait(30)
        yield finished(call, "found")
    elif "secret" in said or "error" in said:
        raise ConnectionError(f"cannot reach https://user:{said}@internal.example/v1 from {__file__}")
    elif "recall" in said:
        yield from text(turn, "You said: " + " | ".join(turn.state["said"]))
    else:
        yield from text(turn, f"You said: {said}")


def answered(turn: Turn, answer: dict[str, Any], call: str | None) -> Iterator[Event]:
    """Goes on after a pause. Causeway has started the open calls again and ended those that were refused."""
    if call is None:
        yield from text(turn, f"You chose {answer['values']['city']}." if "values" in answer else "Never mind.")
    elif answer["decisions"][0]["decision"] == "reject":
        yield from text(turn, "Then I will not.")
    else:
        yield finished(call, "restarted")
        yield from text(turn, "Done.")


def gated(turn: Turn, call: str, name: str, arguments: dict[str, Any]) -> Iterator[Event]:
    """A tool that the gateway runs (docs/tools.md). It tells of the call itself: no `started`, no `finished`."""
    answer = turn.call(call, name, arguments)
    if answer["status"] == "approval_required":
        pause = turn.new_id("ask")
        turn.state["asked"] = {"pause": pause, "call": call, "gated": [call, name, arguments]}
        yield ask(pause, tool_approvals=[approval(call, name, arguments)])
    elif answer["status"] == "ok":
        yield from text(turn, f"The tool says: {answer['result']}")
    else:
        yield from text(turn, f"The tool failed: {answer['message']}")


def decided(turn: Turn, decision: dict[str, Any], call: str, name: str, arguments: dict[str, Any]) -> Iterator[Event]:
    """Asks again with what was decided; what was refused is told by Causeway already."""
    if decision["decision"] == "reject":
        yield from text(turn, "Then I will not.")
    else:
        yield from gated(turn, call, name, decision.get("edited_args", arguments))


# ── canonical events ─────────────────────────────────────────────────────────


def event(kind: str, namespace: list[str] | None = None, **data: Any) -> Event:
    return {"type": kind, "namespace": namespace or [], "data": data}


def text(turn: Turn, words: str, namespace: list[str] | None = None) -> Iterator[Event]:
    """A message, in pieces as a model would give it."""
    message = turn.new_id("msg")
    yield event("text.started", namespace, message_id=message, role="assistant")
    for at in range(0, len(words), 1000):
        yield event("text.delta", namespace, message_id=message, delta=words[at : at + 1000])
    yield event("text.finished", namespace, message_id=message)


def started(call: str, name: str, arguments: dict[str, Any], namespace: list[str] | None = None) -> Event:
    return event("tool.started", namespace, tool_call_id=call, tool_name=name, arguments=arguments)


def finished(call: str, result: str, namespace: list[str] | None = None) -> Event:
    return event("tool.finished", namespace, tool_call_id=call, result=result)


def failed(call: str, message: str, namespace: list[str] | None = None) -> Event:
    return event("tool.error", namespace, tool_call_id=call, code="tool_error", message=message, retryable=False)


def entered(path: list[str], agent_id: str, call: str) -> Event:
    return event("namespace.entered", path, agent_id=agent_id, agent_name=agent_id.title(), parent_tool_call_id=call)


def exited(path: list[str], agent_id: str, call: str, outcome: str = "success") -> Event:
    return event("namespace.exited", path, agent_id=agent_id, parent_tool_call_id=call, outcome=outcome)


def approval(call: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    allowed = ["approve", "edit", "reject"]
    return {"tool_call_id": call, "tool_name": name, "tool_args": arguments, "allowed_decisions": allowed}


def ask(interrupt: str, **request: Any) -> Event:
    kind = "tool_approval" if "tool_approvals" in request else "form_input"
    return event("interrupt.requested", interrupt_id=interrupt, interrupt_type=kind, agent_id="template", **request)


# ── turns ────────────────────────────────────────────────────────────────────


class Cancelled(Exception):
    """The engine asked to leave the turn."""


class Refusal(Exception):
    """A request that is turned down; `word` is one of the protocol's `error_type`s."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(reason)
        self.word = word


class Turn:
    """A request at work."""

    def __init__(self, request: dict[str, Any], state: dict[str, Any]) -> None:
        self.run_id: str = request["run_id"]
        self.thread_id: str = request["thread_id"]
        self.text: str = request.get("input", {}).get("text", "")
        self.answer: dict[str, Any] | None = request.get("resume")
        self.state = state
        self.offer: dict[str, Any] | None = request.get("tools")
        self.tool_results: queue.Queue[dict[str, Any]] = queue.Queue()
        self.write: Any = None  # set when it begins
        self.cancelled = threading.Event()
        self.numbers = 0

    def new_id(self, what: str) -> str:
        """An id that no other turn of the conversation uses."""
        self.numbers += 1
        return f"{what}-{self.thread_id[-40:]}-{self.numbers}"

    def offers(self, name: str) -> bool:
        """Whether the gateway runs this tool for us."""
        return self.offer is not None and name in self.offer["names"]

    def call(self, call: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Has the gateway run a tool; its answer: `status` is ok, error or approval_required."""
        generation = self.offer["generation"] if self.offer else None
        self.write(kind="tool", run_id=self.run_id, call_id=call, name=name, arguments=json.dumps(arguments), generation=generation)
        while not self.cancelled.is_set():
            try:
                answer = self.tool_results.get(timeout=0.05)
            except queue.Empty:
                continue
            if answer.get("call_id") == call:
                return answer
        raise Cancelled

    def wait(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise Cancelled


class States:
    """What conversations remember, by head. A head's state never changes: every turn writes under a new one."""

    def __init__(self, file: str | None) -> None:
        self.lock = threading.Lock()
        self.db = sqlite3.connect(file or ":memory:", check_same_thread=False, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS states (head TEXT PRIMARY KEY, thread TEXT, state TEXT)")

    def load(self, base: str | None) -> dict[str, Any]:
        if base is None:
            return {}
        with self.lock:
            row = self.db.execute("SELECT state FROM states WHERE head = ?", (base,)).fetchone()
        if row is None:
            raise Refusal("unknown_head", "there is no such head")
        return json.loads(row[0])

    def save(self, turn: Turn) -> str:
        head = f"{turn.thread_id}:end"
        with self.lock:
            self.db.execute("INSERT INTO states VALUES (?, ?, ?)", (head, turn.thread_id, json.dumps(turn.state)))
        return head

    def forget(self, threads: list[str]) -> None:
        with self.lock:
            self.db.executemany("DELETE FROM states WHERE thread = ?", [(thread,) for thread in threads])


class Worker:
    def __init__(self, states: States, restores: bool, out: BinaryIO) -> None:
        self.states = states
        self.restores = restores
        self.out = out
        self.writing = threading.Lock()
        self.inbox: queue.Queue[bytes | None] = queue.Queue()  # lines; b"" is their end, None the end of a turn
        self.turn: Turn | None = None
        self.accepted: set[str] = set()
        self.early_cancels: set[str] = set()
        self.leaving = False

    def serve(self, stdin: BinaryIO) -> None:
        self.write(kind="hello", protocol=1, harness="canonical", versions={}, restore=self.restores, forget=True, tools=True)
        threading.Thread(target=self.read, args=(stdin,), daemon=True).start()
        while self.turn or not self.leaving:
            line = self.inbox.get()
            if line is None:
                continue
            if line == b"":
                self.leaving = True
                if self.turn:
                    self.turn.cancelled.set()
            elif not line.isspace():
                self.take(line)
        self.writing.acquire()  # nothing is cut in the middle

    def read(self, stdin: BinaryIO) -> None:
        while line := stdin.readline(LINE_LIMIT + 1):
            if len(line) > LINE_LIMIT:
                while line and not line.endswith(b"\n"):
                    line = stdin.readline(LINE_LIMIT)
                line = b"too long to be read"
            self.inbox.put(line)
        last_call = threading.Timer(LEAVE_WITHIN, os._exit, (1,))  # whatever still runs then
        last_call.daemon = True
        last_call.start()
        self.inbox.put(b"")

    def take(self, line: bytes) -> None:
        """A line of the engine. What cannot be served is answered here; what can is begun."""
        answer_to = None  # null, where the answer must not be taken for the closing line of a run
        try:
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                raise Refusal("bad_request", "the line is not JSON") from None
            need(isinstance(request, dict), "the line is not an object")
            op, run_id = request.get("op"), request.get("run_id")
            if op == "exit":
                self.leaving = True
            elif op == "forget":
                at_work = self.turn and self.turn.thread_id
                self.states.forget([each for each in request["thread_ids"] if each != at_work])
            elif op == "cancel":
                self.cancel(run_id)
            elif op == "tool_result":
                if self.turn and self.turn.run_id == run_id:
                    self.turn.tool_results.put(request)
            else:
                need(isinstance(run_id, str) and run_id, "a request needs a run_id")
                need(run_id not in self.accepted, "the run_id is not new")
                answer_to = run_id
                self.begin(op, request)
        except Refusal as refusal:
            self.write(kind="error", run_id=answer_to, error_type=refusal.word, message=str(refusal))

    def begin(self, op: Any, request: dict[str, Any]) -> None:
        need(op in ("run", "resume"), "the op is not known")
        thread, base = request.get("thread_id"), request.get("base", ...)
        need(isinstance(thread, str) and thread.isprintable() and 0 < len(thread.encode()) <= 200, "no thread_id")
        need(base is None or isinstance(base, str), "base must be null or a head")
        if op == "run":
            given = request.get("input")
            need(isinstance(given, dict) and isinstance(given.get("text"), str), "input.text must be a string")
        else:
            need(base is not None and "resume" in request, "resume needs a base and a resume value")
        if self.turn or self.leaving:
            raise Refusal("busy", "a turn is running, or the worker is leaving")
        if base is not None and not self.restores:
            raise Refusal("unknown_head", "this worker restores nothing")
        turn = Turn(request, self.states.load(base))
        self.accepted.add(turn.run_id)
        if turn.run_id in self.early_cancels:
            self.early_cancels.discard(turn.run_id)
            self.write(kind="cancelled", run_id=turn.run_id, state={})
            return
        self.turn = turn
        turn.write = self.write
        threading.Thread(target=self.play, args=(op, turn), daemon=True).start()

    def cancel(self, run_id: Any) -> None:
        if self.turn and self.turn.run_id == run_id:
            self.turn.cancelled.set()
        elif isinstance(run_id, str) and run_id not in self.accepted:
            self.early_cancels.add(run_id)

    def play(self, op: str, turn: Turn) -> None:
        """Plays a turn and writes its closing line, whatever happens."""
        pauses = []
        try:
            self.write(kind="begin", run_id=turn.run_id, op=op, **({"resume": turn.answer} if op == "resume" else {}))
            for each in agent(turn):
                if turn.cancelled.is_set():
                    raise Cancelled
                if each["type"] == "interrupt.requested":
                    pauses = [{"id": each["data"]["interrupt_id"], "value": each["data"]}]
                self.write(kind="chunk", run_id=turn.run_id, event=each)
            state = {"head": self.states.save(turn), "interrupts": pauses}
            closing = {"kind": "end", "run_id": turn.run_id, "state": state}
        except Cancelled:
            closing = {"kind": "cancelled", "run_id": turn.run_id, "state": {}}
        except Refusal as refusal:
            closing = {"kind": "error", "run_id": turn.run_id, "error_type": refusal.word, "message": str(refusal)}
        except Exception as exc:  # its text is for logs; clients see neither it nor the name
            closing = {"kind": "error", "run_id": turn.run_id, "error_type": type(exc).__name__, "message": str(exc)[:500]}
        self.write(closes=True, **closing)
        self.inbox.put(None)

    def write(self, closes: bool = False, **keys: Any) -> None:
        data = json.dumps(keys, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        if len(data) >= LINE_LIMIT:
            if not closes:
                raise Refusal("line_too_long", f"a {keys['kind']} line of {len(data) + 1} bytes")
            data = json.dumps({"kind": "error", "run_id": keys.get("run_id"), "error_type": "line_too_long", "message": ""}).encode()
        with self.writing:
            if closes:
                self.turn = None  # before the engine can know it: its next request must not find us busy
            try:
                self.out.write(data + b"\n")
                self.out.flush()
            except OSError:
                os._exit(1)  # nobody will ever read


def need(condition: Any, reason: str) -> None:
    if not condition:
        raise Refusal("bad_request", reason)


def main() -> None:
    parser = argparse.ArgumentParser(description="A worker to start from (worker protocol 1, canonical events).")
    parser.add_argument("--db", metavar="FILE", help="SQLite file for the states of the conversation")
    options = parser.parse_args()
    # stdout is for the protocol alone: what anything else prints goes to stderr.
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if options.db:
        os.makedirs(os.path.dirname(os.path.abspath(options.db)), exist_ok=True)
    Worker(States(options.db), bool(options.db), stdout).serve(stdin)
    os._exit(0)


if __name__ == "__main__":
    main()
