#!/usr/bin/env python3
"""A model that plays a script: the part of the Anthropic Messages API that the Claude Code CLI needs, on 127.0.0.1.

    fake_model.py SCRIPT.json [--port N] [--log FILE]

Prints its address on the first line and serves until its stdin ends. SCRIPT.json holds plays, tried in order:

    {"plays": [{"when": "weather", "answers": [ANSWER, ...]}, {"answers": [...]}]}

A play is taken when its word is in the newest thing the person said (none: always), counted from the first message
that holds it: its first answer comes first, and so on; after the last, "(nothing more to say)".
An ANSWER is a list of {"text": "...", "gap": seconds between pieces}, {"thinking": "..."},
{"tool": {"id", "name", "input"}}, {"sleep": seconds} and {"error": {"type", "message"}}, or one {"status": 429, "type": "rate_limit_error",
"message": "...", "headers": {}} for a refusal. FILE gets the messages of each request, a line each.
"""

import argparse
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOTHING = [{"text": "(nothing more to say)"}]


def texts(message):
    """What was said in a message by a person or the model; reminders of the CLI's own are left out."""
    content = message.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said = [block.get("text", "") for block in blocks if block.get("type") == "text"]
    return [text for text in said if "<system-reminder>" not in text]


def choose(script, messages):
    """The answer to a conversation: the play of the newest message that has one, and as many answers later."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].get("role") != "user":
            continue
        said = " ".join(texts(messages[at]))
        if not said.strip():
            continue
        for play in script["plays"]:
            if play.get("when", "") in said:
                given = sum(1 for message in messages[at:] if message.get("role") == "assistant")
                return play["answers"][given] if given < len(play["answers"]) else NOTHING
    return NOTHING


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.whole(200, {"data": [], "has_more": False})

    do_HEAD = do_GET

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if "count_tokens" in self.path:
            return self.whole(200, {"input_tokens": 1})
        if not body.get("tools"):  # the CLI asks for a title beside the conversation
            return self.whole(200, self.message("msg_side", [{"type": "text", "text": "Title"}], "end_turn"))
        messages = body.get("messages", [])
        self.server.note(messages)
        answer = choose(self.server.script, messages)
        refusal = next((step for step in answer if "status" in step), None)
        if refusal:
            error = {"type": refusal["type"], "message": refusal.get("message", "")}
            return self.whole(refusal["status"], {"type": "error", "error": error}, refusal.get("headers", {}))
        self.stream(f"msg_{self.server.next_number()}", answer)

    def message(self, name, content, stop):
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {"id": name, "type": "message", "role": "assistant", "model": "scripted", "content": content,
                "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def whole(self, status, body, headers=None):
        raw = json.dumps(body).encode()
        self.send_response(status)
        for key, value in {"content-type": "application/json", "content-length": str(len(raw)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(raw)

    def say(self, kind, **data):
        raw = f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def stream(self, name, answer):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.say("message_start", message={**self.message(name, [], None), "usage": {"input_tokens": 10, "output_tokens": 1}})
        index = 0
        for step in answer:
            if "sleep" in step:
                time.sleep(step["sleep"])
                continue
            if "error" in step:
                self.say("error", error=step["error"])
                self.wfile.write(b"0\r\n\r\n")
                return
            block, deltas = self.block(step)
            self.say("content_block_start", index=index, content_block=block)
            for delta in deltas:
                time.sleep(step.get("gap", 0))
                self.say("content_block_delta", index=index, delta=delta)
            self.say("content_block_stop", index=index)
            index += 1
        stop = "tool_use" if any("tool" in step for step in answer) else "end_turn"
        self.say("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 5})
        self.say("message_stop")
        self.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def block(step):
        def pieces(text):
            return [text[at:at + 8] for at in range(0, len(text), 8)]

        if "tool" in step:
            tool = step["tool"]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(json.dumps(tool["input"]))]
            return {"type": "tool_use", "id": tool["id"], "name": tool["name"], "input": {}}, deltas
        if "thinking" in step:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(step["thinking"])]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas + [{"type": "signature_delta", "signature": "c2ln"}]
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(step["text"])]


class Model(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port, script, log):
        super().__init__(("127.0.0.1", port), Handler)
        self.script, self.log, self.lock, self.number = script, log, threading.Lock(), 0

    def next_number(self):
        with self.lock:
            self.number += 1
            return self.number

    def note(self, messages):
        if self.log:
            with self.lock, open(self.log, "a", encoding="utf-8") as file:
                said = [[message.get("role"), texts(message)] for message in messages]
                file.write(json.dumps(said) + "\n")

    def handle_error(self, request, client_address):
        """A client that goes away is nothing to speak of."""


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("script")
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--log")
    given = arguments.parse_args()
    with open(given.script, encoding="utf-8") as file:
        model = Model(given.port, json.load(file), given.log)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{model.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
