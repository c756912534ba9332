"""A worker of canonical events that asks for tools as its script says. Standard library only.

    asker.py [--mute]       without "tools" in its hello

The text of a message is a JSON list of steps, played in order; a resumed turn plays what the
interrupted one left. A step is a list:

    ["ask", CALL, NAME, ARGUMENTS]      a tool line with this text, or these pieces where it is a list; waits for the reply
    ["ask", CALL, NAME, ARGUMENTS, KEYS]  with these keys changed
    ["raw", HEX]                        these bytes and a line break; @RUN@ and @GEN@ are filled in; waits for nothing
    ["event", TYPE, DATA]
    ["pause", CALL, NAME, ARGUMENTS]    asks a person about the call; what is left is for the resumed turn
    ["again", CALL, NAME, ARGUMENTS]    in a resumed turn: asks with what was decided, not at all where it was refused
    ["hang"]

What a reply says is told as text: `CALL STATUS [CODE] [RESULT]`.
"""

import json
import sys
import threading
import time

OUT = sys.stdout.buffer
LOCK = threading.Lock()
REPLIES = []
NEWS = threading.Condition()
LEFT = {}  # what is left to play, by head: this process serves its whole conversation


def raw(data):
    with LOCK:
        OUT.write(data + b"\n")
        OUT.flush()


def say(kind, **keys):
    raw(json.dumps({"kind": kind, **keys}).encode())


def reply_to(call):
    with NEWS:
        while True:
            for reply in REPLIES:
                if reply["call_id"] == call:
                    REPLIES.remove(reply)
                    return reply
            NEWS.wait()


def play(request):
    run, op = request["run_id"], request["op"]
    offer = request.get("tools") or {"generation": 0, "names": []}

    def event(kind, data):
        say("chunk", run_id=run, event={"type": kind, "namespace": [], "data": data})

    def tell(text):
        event("text.delta", {"message_id": "m", "delta": text + "\n"})

    def ask(call, name, arguments, keys={}):
        line = {"kind": "tool", "run_id": run, "call_id": call, "name": name, "generation": offer["generation"]}
        line["deltas" if isinstance(arguments, list) else "arguments"] = arguments
        line.update(keys)
        raw(json.dumps(line).encode())
        reply = reply_to(line["call_id"])
        words = [reply["call_id"], reply["status"], reply.get("code"), reply.get("result"), reply.get("output")]
        tell(" ".join(word for word in words if word is not None))
        return reply

    say("begin", run_id=run, op=op, **({"resume": request["resume"]} if op == "resume" else {}))
    event("text.started", {"message_id": "m", "role": "assistant"})
    if op == "run":
        steps = json.loads(request["input"]["text"])
    else:
        steps = LEFT.pop(request["base"])
    decided = {one["tool_call_id"]: one for one in request.get("resume", {}).get("decisions", [])}
    tell("offered " + ",".join(offer["names"]) + f" {offer['generation']}")
    while steps:
        step = steps.pop(0)
        match step:
            case ["ask", call, name, arguments, *keys]:
                ask(call, name, arguments, *keys)
            case ["raw", hexed]:
                raw(bytes.fromhex(hexed).replace(b"@RUN@", run.encode()).replace(b"@GEN@", str(offer["generation"]).encode()))
            case ["event", kind, data]:
                event(kind, data)
            case ["hang"]:
                while True:
                    time.sleep(60)
            case ["again", call, name, arguments]:
                one = decided[call]
                if one["decision"] != "reject":
                    ask(call, name, json.dumps(one["edited_args"]) if "edited_args" in one else arguments)
            case ["pause", call, name, arguments]:
                allowed = ["approve", "edit", "reject"]
                approval = {"tool_call_id": call, "tool_name": name, "tool_args": json.loads(arguments), "allowed_decisions": allowed}
                event("text.finished", {"message_id": "m"})
                request = {"interrupt_id": "i-" + run, "interrupt_type": "tool_approval", "agent_id": "asker", "tool_approvals": [approval]}
                event("interrupt.requested", request)
                LEFT["h-" + run] = steps
                say("end", run_id=run, state={"head": "h-" + run, "interrupts": [{"id": "i-" + run, "value": request}]})
                return
    event("text.finished", {"message_id": "m"})
    say("end", run_id=run, state={"head": "h-" + run, "interrupts": []})


say("hello", protocol=1, harness="canonical", versions={}, restore=True, tools="--mute" not in sys.argv)
for line in sys.stdin.buffer:
    request = json.loads(line)
    match request["op"]:
        case "tool_result":
            with NEWS:
                REPLIES.append(request)
                NEWS.notify_all()
        case "cancel":
            say("cancelled", run_id=request["run_id"], state={})
        case "run" | "resume":
            threading.Thread(target=play, args=(request,), daemon=True).start()
