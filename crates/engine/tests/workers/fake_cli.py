"""Plays a recording of the Claude Code CLI to whoever drives it, and holds what it is told against what was sent then.

    fake_cli.py RECORDING.jsonl FAULTS [ARGUMENTS OF THE CLI]

RECORDING.stdin.jsonl says what was sent after how many lines. A difference goes to the file FAULTS and ends the play.
Answers that came at once are waited for where the CLI really waits: its stream of the message goes on meanwhile.
"""

import json
import os
import signal
import sys


def fault(what):
    with open(sys.argv[2], "a", encoding="utf-8") as file:
        file.write(what + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


def received():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def expect(wanted):
    """Takes the next line of the driver; gives the id of its request, where it is one of its own."""
    given = received()
    if given is None:
        fault(f"stdin ended instead of {wanted}")
    if wanted["type"] == "control_request":
        same = given.get("type") == "control_request" and given["request"] == wanted["request"]
    else:
        same = given == wanted
    if not same:
        fault(f"got {json.dumps(given)}\n instead of {json.dumps(wanted)}")
    return given.get("request_id")


def main():
    with open(sys.argv[1], encoding="utf-8", newline="\n") as file:
        lines = [line for line in file.read().split("\n") if line]
    with open(sys.argv[1].removesuffix(".jsonl") + ".stdin.jsonl", encoding="utf-8") as file:
        sent = [json.loads(line) for line in file]
    at = 0
    second = next((n for n, entry in enumerate(sent) if "then" in entry), None)
    if "--resume" in sys.argv and second is not None:
        at, sent = sent[second]["after"], sent[second + 1:]
    elif "--resume" in sys.argv:  # in the words of the CLI
        print('{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found"]}')
        sys.exit(1)
    elif second is not None:
        lines, sent = lines[:sent[second]["after"]], sent[:second + 1]
    ids = {}
    while True:
        line = json.loads(lines[at]) if at < len(lines) else None
        while sent and sent[0]["after"] <= at:
            entry = sent[0]
            kind = entry.get("line", {}).get("type")
            if kind == "control_response" and line and line["type"] == "stream_event":
                break  # the CLI streams on while it waits
            if kind == "user" and line and line["type"] == "control_response":
                break  # the driver waits for this first
            sent.pop(0)
            if "signal" in entry:
                os.kill(os.getpid(), signal.SIGKILL)
            if "exit" in entry:
                if (more := received()) is not None:
                    fault(f"got {json.dumps(more)} after the end")
                sys.exit(entry["exit"])
            ids[entry["line"].get("request_id")] = expect(entry["line"])
        if line is None:
            fault("the recording has no end")
        if line["type"] == "control_response":
            response = line["response"]
            response["request_id"] = ids.get(response["request_id"], response["request_id"])
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        at += 1


main()
