"""The worker's side of the conversation: requests in, one turn at a time, one closing line each.

It keeps no state of a conversation: that is in `states.py`, by head.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import sys
import threading
from collections import OrderedDict
from typing import Any, BinaryIO

from deepagents.backends.utils import create_file_data
from langgraph.types import Command

import protocol
from gate import CURRENT, Gate, waiting_calls
from native import STREAM_MODES, chunk, to_json
from protocol import LINE_LIMIT, Cancel, Exit, Forget, Refusal, ToolResult, TurnRequest
from states import States

PACKAGES = ("deepagents", "langgraph", "langchain", "langchain-core", "langgraph-prebuilt", "langgraph-checkpoint")
LEAVE_WITHIN = 4.5  # seconds after the end of stdin; the protocol grants 5
EARLY_CANCELS = 1000  # cancels that came before their request and are remembered
RECURSION_LIMIT = 100


class Turn:
    """An accepted request at work."""

    def __init__(self, request: TurnRequest, cancelled: bool) -> None:
        self.request = request
        self.cancelled = cancelled
        self.streaming: asyncio.Task[None] | None = None
        self.gate: Gate | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self.streaming:
            self.streaming.cancel()


class Worker:
    def __init__(self, graph: Any, states: States, restores: bool, out: BinaryIO) -> None:
        self.graph = graph
        self.states = states
        self.restores = restores
        self.out = out
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()  # lines; b"" is their end, None the end of a turn
        self.turn: Turn | None = None
        self.accepted: set[str] = set()
        self.early_cancels: OrderedDict[str, None] = OrderedDict()
        self.leaving = False

    async def serve(self, stdin: BinaryIO) -> None:
        versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        self.write(protocol.hello("deepagents", versions, self.restores))
        _read_in_a_thread(stdin, asyncio.get_running_loop(), self.inbox)
        while self.turn or not self.leaving:
            line = await self.inbox.get()
            if line == b"":
                self.leaving = True
                if self.turn:
                    self.turn.cancel()
            elif line and not line.isspace():
                await self.take(line)

    async def take(self, line: bytes) -> None:
        """A line of the engine. What cannot be served is answered here; what can is begun."""
        answer_to = None  # null, where the answer must not be taken for the closing line of a run
        try:
            raw = protocol.read_object(line)
            if raw["op"] not in ("cancel", "forget", "exit", "tool_result"):
                run_id = protocol.run_id_of(raw)
                if run_id in self.accepted:
                    raise Refusal("bad_request", "the run_id is not new")
                answer_to = run_id
            match protocol.parse(raw):
                case Exit():
                    self.leaving = True
                case Cancel(run_id):
                    self.cancel(run_id)
                case Forget(thread_ids):
                    await self.forget(thread_ids)
                case ToolResult(answer):
                    turn = self.turn
                    if turn and turn.gate and answer.get("run_id") == turn.request.run_id:
                        turn.gate.deliver(answer)
                case TurnRequest() as request:
                    self.begin(request)
        except Refusal as refusal:
            self.write(protocol.error(answer_to, refusal))

    async def forget(self, thread_ids: tuple[str, ...]) -> None:
        at_work = self.turn and self.turn.request.thread_id
        try:
            await self.states.forget([each for each in thread_ids if each != at_work])
        except self.states.FAILURES as exc:
            # Not answered, and no reason to end a turn: the engine may ask again, and until then more is kept.
            print(f"cannot forget: {type(exc).__name__}", file=sys.stderr)

    def begin(self, request: TurnRequest) -> None:
        if self.turn or self.leaving:
            raise Refusal("busy", "a turn is running" if self.turn else "the worker is leaving")
        self.accepted.add(request.run_id)
        self.turn = Turn(request, cancelled=request.run_id in self.early_cancels)
        self.playing = asyncio.create_task(self.play(self.turn))  # held, or it could be collected

    def cancel(self, run_id: str) -> None:
        if self.turn and self.turn.request.run_id == run_id:
            self.turn.cancel()
        elif run_id not in self.accepted:
            self.early_cancels[run_id] = None
            if len(self.early_cancels) > EARLY_CANCELS:
                self.early_cancels.popitem(last=False)

    # ── a turn ───────────────────────────────────────────────────────────────

    async def play(self, turn: Turn) -> None:
        """One turn and its one closing line, whatever happens."""
        run_id = turn.request.run_id
        try:
            last = await self.closing_line(turn)
        except Exception as exc:  # noqa: BLE001: any failure of the harness is reported, none ends the worker
            last = protocol.error(run_id, exc)
        self.turn = None  # a cancel from here on is too late
        self.write(last)
        self.inbox.put_nowait(None)

    async def closing_line(self, turn: Turn) -> bytes:
        request = turn.request
        if turn.cancelled:
            return protocol.line(kind="cancelled", run_id=request.run_id, state={})
        if request.base is not None and not self.restores:
            raise Refusal("unknown_head", "this worker keeps no states (neither --db nor --postgres)")
        await self.states.open(request.thread_id, request.base)
        before = await self.states.mark(request.thread_id)
        failure: BaseException | None = None
        if not turn.cancelled:
            turn.streaming = asyncio.create_task(self.stream(turn))
            failure = await _outcome(turn)
        state = await self.sealed(request.thread_id, before)
        if isinstance(failure, Exception):
            return protocol.error(request.run_id, failure, state)
        # The outcome tells, not the wish: a stream that ended before the cancel reached it has ended.
        left = turn.streaming is None or failure is not None
        return protocol.line(kind="cancelled" if left else "end", run_id=request.run_id, state=state)

    async def stream(self, turn: Turn) -> None:
        request = turn.request
        echo = {"resume": request.resume} if request.op == "resume" else {}
        self.write(protocol.line(kind="begin", run_id=request.run_id, op=request.op, **echo))
        turn.gate = Gate(request.run_id, request.tools, lambda **keys: self.write(protocol.line(**keys)))
        if request.op == "resume" and request.tools:
            turn.gate.decided = waiting_calls(await self.graph.aget_state(self.config(request.thread_id)))
        CURRENT.set(turn.gate)  # for the tools of this turn, which run in tasks of this one
        items = self.graph.astream(
            _native_input(request),
            config=self.config(request.thread_id),
            context=request.context,
            stream_mode=STREAM_MODES,
            subgraphs=True,
        )
        async with contextlib.aclosing(items):
            async for item in items:
                if turn.cancelled:  # something inside swallowed the cancellation
                    raise asyncio.CancelledError
                self.write(protocol.line(kind="chunk", run_id=request.run_id, **chunk(item)))

    async def sealed(self, thread_id: str, before: tuple[int, str | None]) -> dict[str, Any]:
        """Seal the thread and report its state. It has no head when the turn stored nothing."""
        now = await self.graph.aget_state(self.config(thread_id))
        untouched = await self.states.mark(thread_id) == before
        if untouched:
            await self.states.forget([thread_id])
            head = None
        else:
            head = await self.states.seal(thread_id, self.graph, {task.id for task in now.tasks})
        # A task with a result has had its answer; its pause is history.
        waiting = [pause for task in now.tasks if not task.result for pause in task.interrupts]
        return ({"head": head} if head else {}) | {
            "interrupts": [to_json(pause) for pause in waiting],
            "next": list(now.next),
            "message_count": len(now.values.get("messages", [])),
        }

    def config(self, thread_id: str) -> dict[str, Any]:
        return {"configurable": {"thread_id": thread_id}, "recursion_limit": RECURSION_LIMIT}

    def write(self, data: bytes) -> None:
        """Waits while the engine does not read, and the harness with it."""
        try:
            self.out.write(data)
            self.out.flush()
        except OSError:
            os._exit(1)  # nobody will ever read


async def _outcome(turn: Turn) -> BaseException | None:
    """What ended the stream: nothing, a failure, or `CancelledError`. A cancel that is swallowed is repeated."""
    assert turn.streaming
    while not turn.streaming.done():
        await asyncio.wait({turn.streaming}, timeout=0.5)
        if turn.cancelled and not turn.streaming.done():
            turn.streaming.cancel()
    return asyncio.CancelledError() if turn.streaming.cancelled() else turn.streaming.exception()


def _native_input(request: TurnRequest) -> Any:
    if request.op == "resume":
        return Command(resume=request.resume)
    files = {path: create_file_data(text) for path, text in request.files.items()}
    return {"messages": [{"role": "user", "content": request.text}]} | ({"files": files} if files else {})


def _read_in_a_thread(stdin: BinaryIO, loop: asyncio.AbstractEventLoop, inbox: asyncio.Queue[bytes | None]) -> None:
    """stdin may be a pipe, a file or a terminal, and lines are read while a turn blocks."""

    def read() -> None:
        while line := stdin.readline(LINE_LIMIT + 1):
            if len(line) > LINE_LIMIT:
                while line and not line.endswith(b"\n"):
                    line = stdin.readline(LINE_LIMIT)
                line = b"too long to be read"
            loop.call_soon_threadsafe(inbox.put_nowait, line)
        # A tool may hold the loop, or nobody may read what is written: then the process ends all the same.
        last_call = threading.Timer(LEAVE_WITHIN, os._exit, (1,))
        last_call.daemon = True
        last_call.start()
        loop.call_soon_threadsafe(inbox.put_nowait, b"")

    threading.Thread(target=read, daemon=True, name="stdin").start()
