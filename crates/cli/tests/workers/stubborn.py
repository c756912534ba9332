"""A worker that leaves a cancelled turn only when a file appears: python stubborn.py FILE. Worker protocol 1."""

import json
import os
import sys
import threading
import time


def write(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def event(kind, **data):
    return {"type": kind, "namespace": [], "data": data}


def play(run_id, go):
    write(kind="begin", run_id=run_id, op="run")
    message = f"msg-{run_id}"
    write(kind="chunk", run_id=run_id, event=event("text.started", message_id=message, role="assistant"))
    write(kind="chunk", run_id=run_id, event=event("text.delta", message_id=message, delta="I am busy."))
    while not os.path.exists(go):
        time.sleep(0.02)
    write(kind="cancelled", run_id=run_id, state={})


write(kind="hello", protocol=1, harness="canonical", versions={}, restore=False, forget=False)
for line in sys.stdin:
    request = json.loads(line)
    if request.get("op") == "run":
        threading.Thread(target=play, args=(request["run_id"], sys.argv[1]), daemon=True).start()
    elif request.get("op") == "exit":
        break
