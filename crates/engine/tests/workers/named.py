"""The template worker, which says its name and its process, and waits where it is told to: python named.py NAME GO.

A turn whose message holds `wait` ends when the file GO is there.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "examples" / "template-python"))

import worker  # noqa: E402

NAME, GO = sys.argv[1:3]
del sys.argv[1:3]


def agent(turn):
    message = turn.new_id("msg")
    yield worker.event("text.started", message_id=message, role="assistant")
    yield worker.event("text.delta", message_id=message, delta=f"{NAME} {os.getpid()}")
    while "wait" in turn.text and not os.path.exists(GO):
        turn.wait(0.02)
    yield worker.event("text.finished", message_id=message)


worker.agent = agent
worker.main()
