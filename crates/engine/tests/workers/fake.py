"""A worker that behaves, and misbehaves, as it is told. Standard library only.

    fake.py HOW_IT_STARTS

What a turn does is the text of its message; see `TURNS`.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

START = sys.argv[1] if len(sys.argv) > 1 else "well"
LOCK = threading.Lock()
CANCELLED = threading.Event()
TURN = [0]


def raw(data):
    with LOCK:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def say(kind, **keys):
    raw(json.dumps({"kind": kind, **keys}).encode() + b"\n")


def hello(**changes):
    say("hello", **{"protocol": 1, "harness": "deepagents", "versions": {}, "restore": True, "forget": True, **changes})


def begin(run, op="run"):
    say("begin", run_id=run, op=op)


def chunk(run, data):
    say("chunk", run_id=run, ns=[], mode="updates", data=data)


def end(run):
    say("end", run_id=run, state={"head": f"head-{run}", "interrupts": []})


def forever():
    while True:
        time.sleep(60)


def echo(run, req):
    begin(run, req["op"])
    chunk(run, {"request": req})
    end(run)


def self_portrait(run, req):
    begin(run)
    chunk(run, {"pid": os.getpid(), "env": dict(os.environ), "arguments": sys.argv[2:], "leads": os.getpgid(0) == os.getpid()})
    end(run)


def slow(run, req):
    begin(run)
    number = 0
    while not CANCELLED.wait(0.02):
        chunk(run, {"number": number})
        number += 1
    say("cancelled", run_id=run, state={"head": f"head-{run}"})


def quiet(run, req):
    begin(run)
    end(run)


def wait(run, req):
    begin(run)
    CANCELLED.wait()
    say("cancelled", run_id=run, state={"head": f"head-{run}"})


def deaf(run, req):
    begin(run)
    forever()


def hang(run, req):
    begin(run)
    chunk(run, {"pid": os.getpid()})
    forever()


def hang_with_child(run, req):
    child = subprocess.Popen(["sleep", "300"])
    begin(run)
    chunk(run, {"pid": os.getpid(), "child": child.pid})
    forever()


def die_leaving_a_child(run, req):
    child = subprocess.Popen(["sleep", "300"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begin(run)
    chunk(run, {"child": child.pid})
    os._exit(0)


def die_with_the_pipe_held(run, req):
    child = subprocess.Popen(["sleep", "300"])
    begin(run)
    chunk(run, {"child": child.pid})
    os._exit(0)


def flood(run, req):
    begin(run)
    number = 0
    while True:
        chunk(run, {"number": number, "pad": "x" * 10_000})
        number += 1
        with open(os.environ["FLOODED"] + ".new", "w") as file:
            print(number, file=file)
        os.replace(file.name, os.environ["FLOODED"])


def die(run, req):
    begin(run)
    chunk(run, {})
    os._exit(0)


def die_in_a_line(run, req):
    begin(run)
    raw(b'{"kind":"end","run_id":')
    os._exit(0)


def lines(*templates):
    def turn(run, req):
        for template in templates:
            raw(template.replace(b"RUN", run.encode()) if isinstance(template, bytes) else template(run))

    return turn


BEGIN = b'{"kind":"begin","run_id":"RUN","op":"run"}\n'
CHUNK = b'{"kind":"chunk","run_id":"RUN","ns":[],"mode":"updates","data":{}}\n'
END = b'{"kind":"end","run_id":"RUN","state":{"head":"h","interrupts":[]}}\n'


def error(word):
    return lines(BEGIN, b'{"kind":"error","run_id":"RUN","error_type":"%s","message":"secret"}\n' % word.encode())


def refusal(word):
    return lines(b'{"kind":"error","run_id":"RUN","error_type":"%s","message":"secret"}\n' % word.encode())


def long_line(run, req):
    begin(run)
    raw(b'{"kind":"chunk","run_id":"' + run.encode() + b'","pad":"')
    for _ in range(20):
        raw(b"x" * (1 << 20))
    forever()


def noisy(run, req):
    begin(run)
    for _ in range(200):
        sys.stderr.write("password=hunter2 " * 1000 + "\n")
    end(run)


def stderr_then(turn):
    def noisy_turn(run, req):
        sys.stderr.write("Traceback of " + req["input"]["text"] + "\n")
        sys.stderr.flush()
        turn(run, req)

    return noisy_turn


def leave_if_kept(run, req):
    if TURN[0] > 1:
        leave(run, req)
    echo(run, req)


def leave(run, req):
    os._exit(0)


def late(run, req):
    begin(run)
    end(run)
    time.sleep(0.1)
    chunk(run, {"late": True})
    forever()


TURNS = {
    "echo": echo,
    "portrait": self_portrait,
    "slow": slow,
    "quiet": quiet,
    "wait": wait,
    "deaf": deaf,
    "hang": hang,
    "hang with child": hang_with_child,
    "die leaving a child": die_leaving_a_child,
    "die with the pipe held": die_with_the_pipe_held,
    "flood": flood,
    "die": die,
    "die in a line": die_in_a_line,
    "noisy": noisy,
    "late": late,
    "leave unbegun": leave,
    "leave unbegun if kept": leave_if_kept,
    "long line": long_line,
    "binary": lines(BEGIN, bytes(range(256)) + b"\n"),
    "malformed": lines(BEGIN, b"{not json\n"),
    "other kind": lines(BEGIN, b'{"kind":"what","run_id":"RUN"}\n'),
    "foreign": lines(BEGIN, b'{"kind":"chunk","run_id":"someone-else","data":{}}\n', END),
    "nameless": lines(BEGIN, b'{"kind":"chunk","data":{}}\n', END),
    "no begin": lines(CHUNK, END),
    "end at once": lines(END),
    "begin twice": lines(BEGIN, BEGIN, END),
    "wrong op": lines(b'{"kind":"begin","run_id":"RUN","op":"resume"}\n', END),
    "hello again": lines(BEGIN, b'{"kind":"hello","protocol":1,"harness":"deepagents"}\n', END),
    "closed, then more": lines(BEGIN, END, CHUNK),
    "nobody's error": lines(BEGIN, b'{"kind":"error","run_id":null,"error_type":"bad_request","message":""}\n', CHUNK, END),
    "unreadable request": lines(b'{"kind":"error","run_id":null,"error_type":"bad_request","message":""}\n'),
    "blank lines": lines(BEGIN, b"\n", END),
    "exception": error("ValueError"),
    "exception, loudly": stderr_then(error("pkg.Value_Error")),
    "sentence, loudly": stderr_then(error("ValueError: secret")),
    "long name, loudly": stderr_then(error("E" * 100)),
    "die, loudly": stderr_then(die),
    "malformed, loudly": stderr_then(lines(b"no JSON\n")),
    "hang, loudly": stderr_then(hang),
    "busy": refusal("busy"),
    "bad_request": refusal("bad_request"),
    "unknown_head": refusal("unknown_head"),
    "line_too_long": error("line_too_long"),
    "ended, exit 3": lines(BEGIN, END),
}


def start():
    match START:
        case "hang":
            forever()
        case "die":
            sys.stderr.write("no module named deepagents\n")
            sys.exit(3)
        case "rubbish":
            raw(b"Traceback (most recent call last):\n")
            forever()
        case "binary":
            raw(b"\xff\xfe\x00\n")
            forever()
        case "endless":
            while True:
                raw(b"x" * (1 << 20))
        case "version 2":
            hello(protocol=2)
        case "other harness":
            hello(harness="strands")
        case "no restore":
            hello(restore=False)
        case "forgetful":
            hello(forget=False)
        case "deaf":
            hello()
            forever()
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            hello()
        case _:
            hello()


def main():
    start()
    for line in sys.stdin.buffer:
        req = json.loads(line)
        if log := os.environ.get("REQUESTS"):
            with open(log, "ab") as file:
                file.write(line)
        match req["op"]:
            case "cancel":
                CANCELLED.set()
            case "exit":
                return
            case "run" | "resume":
                CANCELLED.clear()
                TURN[0] += 1
                name = req["input"]["text"] if req["op"] == "run" else "echo"
                threading.Thread(target=TURNS[name], args=(req["run_id"], req), daemon=True).start()
    if START == "stubborn":
        forever()


main()
os._exit(0)
