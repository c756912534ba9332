"""The template worker, broken in one way: broken.py MODE --db FILE. Each mode breaks one rule; see MODES at the end."""

import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "examples" / "template-python"))

import worker  # noqa: E402
from worker import Refusal, States, Turn, Worker  # noqa: E402

MODE = sys.argv.pop(1)
agent, begin, load, save, write, play = worker.agent, Worker.begin, States.load, States.save, Worker.write, Worker.play


def replaced(events):
    """The agent says these events in its turns in words, instead of its own."""

    def broken(turn):
        if "hello" in turn.text:
            yield from events(turn)
        else:
            yield from agent(turn)

    worker.agent = broken


def prints():
    def loud(self, op, turn):
        self.out.write(b"loading the model\n")
        play(self, op, turn)

    Worker.play = loud


def two_endings():
    def twice(self, closes=False, **keys):
        write(self, closes, **keys)
        if closes:
            write(self, **keys)

    Worker.write = twice


def late():
    def more(self, closes=False, **keys):
        write(self, closes, **keys)
        if closes:
            write(self, kind="chunk", run_id=keys["run_id"], event=worker.event("usage.updated", final=False))

    Worker.write = more


def never_busy():
    def both(self, op, request):
        self.turn = None
        begin(self, op, request)

    Worker.begin = both


def any_head():
    def guess(self, base):
        try:
            return load(self, base)
        except Refusal:
            return {}

    States.load = guess


def writes_to_its_base():
    def remember(self, base):
        state = load(self, base)
        self.base = base
        return state

    def both(self, turn):
        head = save(self, turn)
        with self.lock:
            self.db.execute("UPDATE states SET state = (SELECT state FROM states WHERE head = ?) WHERE head = ?", (head, self.base))
        return head

    States.load, States.save = remember, both


def long_head():
    States.save = lambda self, turn: save(self, turn) + "x" * 300


def new_pauses():
    def other(self, base):
        state = load(self, base)
        if "asked" in state and state["asked"].setdefault("pid", os.getpid()) != os.getpid():
            state["asked"]["pause"] += "-restored"
        return state

    def marked(self, turn):
        if "asked" in turn.state:
            turn.state["asked"]["pid"] = os.getpid()
        return save(self, turn)

    States.load, States.save = other, marked


def deaf():
    Worker.cancel = lambda self, run_id: None


def stays():
    worker.LEAVE_WITHIN = 600
    serve = Worker.serve

    def forever(self, stdin):
        serve(self, stdin)
        time.sleep(600)

    Worker.serve = forever


def half_restore():
    def says_no(self, closes=False, **keys):
        write(self, closes, **({**keys, "restore": False} if keys["kind"] == "hello" else keys))

    Worker.write = says_no
    any_head()


def delta_first():
    replaced(lambda turn: iter([worker.event("text.delta", message_id="m", delta="hello")]))


def finish_and_error():
    def events(turn):
        call = turn.new_id("call")
        yield worker.started(call, "get_weather", {})
        yield worker.finished(call, "mild")
        yield worker.failed(call, "no")

    replaced(events)


def started_twice():
    def events(turn):
        call = turn.new_id("call")
        yield worker.started(call, "get_weather", {})
        yield worker.started(call, "get_weather", {})

    replaced(events)


def open_namespace():
    def events(turn):
        call = turn.new_id("call")
        yield worker.started(call, "task", {})
        yield worker.entered([call], "researcher", call)
        yield worker.event("text.started", [call], message_id="m", role="assistant")
        yield worker.finished(call, "done")

    replaced(events)


def crossed_exits():
    def events(turn):
        outer, inner = turn.new_id("call"), turn.new_id("call")
        yield worker.started(outer, "task", {})
        yield worker.entered([outer], "researcher", outer)
        yield worker.started(inner, "task", {}, [outer])
        yield worker.entered([outer, inner], "reader", inner)
        yield worker.exited([outer], "researcher", outer)

    replaced(events)


def stray_child():
    def events(turn):
        yield worker.event("text.started", ["nobody"], message_id="m", role="assistant")

    replaced(events)


def asks_for_nothing():
    def events(turn):
        yield worker.ask(turn.new_id("ask"), tool_approvals=[worker.approval("never-started", "restart_service", {})])

    replaced(events)


def unknown_event():
    replaced(lambda turn: iter([worker.event("text.shouted", message_id="m")]))


def spoilt_name():
    replaced(lambda turn: iter([worker.started("call", "get\u0007weather", {})]))


def long_delta():
    def events(turn):
        yield worker.event("text.started", message_id="m", role="assistant")
        yield worker.event("text.delta", message_id="m", delta="x" * 100_000)

    replaced(events)


def leaves_a_child():
    def events(turn):
        subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield from agent(turn)

    worker.agent = events


def grows():
    def events(turn):
        GROWN.extend(open(os.devnull) for _ in range(5))
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        yield from agent(turn)

    worker.agent = events


GROWN = []

globals()[MODE]()
worker.main()
