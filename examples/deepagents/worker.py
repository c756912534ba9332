"""A deepagents worker: speaks worker protocol 1 on stdin and stdout.

    python worker.py --db conversation.sqlite                       # the demo agent
    python worker.py --db conversation.sqlite --script FILE.json    # a scripted agent
    python worker.py --db conversation.sqlite --agent my_agent:build
    python worker.py --postgres causeway_workers                    # states where workers of other machines find them

States live in the SQLite file, or in that schema of the database that PGHOST and the other variables of libpq name, where a
later worker finds them. Without either they live in memory and no run can start from another: the worker says
`"restore": false`.

One turn at a time; a cancel is taken at once, in the middle of a tool too; the end of stdin ends the worker.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import pathlib
import sys
from typing import Any, BinaryIO


def _take_the_pipes() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout for the protocol alone: what tools print goes to stderr, what their children read is empty."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _builder(name: str) -> Any:
    """The function `module:function` names; the module may stand in the current folder or beside this file."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    return getattr(importlib.import_module(module), function or "build")


def _states(options: argparse.Namespace) -> Any:
    """Where the states are kept; imports no more than that needs."""
    if options.postgres:
        from postgres_states import PostgresStates

        return PostgresStates.in_schema(options.postgres)
    from sqlite_states import SqliteStates

    if options.db:
        pathlib.Path(options.db).parent.mkdir(parents=True, exist_ok=True)
    return SqliteStates.from_conn_string(options.db or ":memory:")


async def main() -> None:
    parser = argparse.ArgumentParser(description="A deepagents worker (worker protocol 1).")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--db", metavar="FILE", help="SQLite file for the states of the conversation")
    place.add_argument("--postgres", metavar="SCHEMA", help="schema for them in the database of PGHOST, PGUSER, PGPASSWORD, …")
    parser.add_argument("--script", metavar="FILE", help="what the scripted agent says (JSON)")
    parser.add_argument("--agent", metavar="MODULE:FUNCTION", help="your own agent instead: function(checkpointer) -> graph")
    options = parser.parse_args()
    stdin, stdout = _take_the_pipes()

    # Not at the top: what a library prints while it is imported must not reach the engine.
    from session import Worker

    async with _states(options) as states:
        await states.prepare()
        if options.agent:
            graph = _builder(options.agent)(states)
        else:
            from agent import build

            graph = build(states, options.script)
        await Worker(graph, states, bool(options.db or options.postgres), stdout).serve(stdin)
        stdout.flush()
    os._exit(0)  # not a return, which would wait for the threads of tools that were cancelled


if __name__ == "__main__":
    asyncio.run(main())
