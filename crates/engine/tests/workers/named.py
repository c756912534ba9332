"""A worker that says its name and its process, and waits where it is told to: python named.py NAME GO. Worker protocol 1.

A turn whose message holds `wait` ends when the file GO is there.
"""

import json
import os
import sys
import threading
import time

NAME, GO = sys.argv[1:3]


def write(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def event(kind, **data):
    return {"type": kind, "namespace": [], "data": data}


def play(run_id, message):
    write(kind="begin", run_id=run_id, op="run")
    text = f"msg-{run_id}"
    write(kind="chunk", run_id=run_id, event=event("text.started", message_id=text, role="assistant"))
    write(kind="chunk", run_id=run_id, event=event("text.delta", message_id=text, delta=f"{NAME} {os.getpid()}"))
    while "wait" in message and not os.path.exists(GO):
        time.sleep(0.02)
    write(kind="chunk", run_id=run_id, event=event("text.finished", message_id=text))
    write(kind="end", run_id=run_id, state={"head": f"head-{run_id}", "interrupts": []})


write(kind="hello", protocol=1, harness="canonical", versions={}, restore=True, forget=False)
for line in sys.stdin:
    request = json.loads(line)
    if request.get("op") == "run":
        threading.Thread(target=play, args=(request["run_id"], json.dumps(request)), daemon=True).start()
    elif request.get("op") == "exit":
        break
