"""The states of conversations: a thread for every run, a head for every state, in a database that a later worker finds.

A run works in a thread of its own, begun as a copy of the thread its base names. When it is over the thread is
sealed: it gets a head, and from then on the database itself refuses to write to it (a trigger), whoever tries: a tool
that outlived its cancel, a second worker, one whose gateway was taken for dead. So a head names one state for good.

Why a copy, when LangGraph can start from any checkpoint of a thread? Because the answer to a pause stays beside
the paused checkpoint and is found again by whoever starts there next; because a subgraph goes on from the newest
checkpoint of its namespace, whatever the root started from; and because two pauses inside one tool share a checkpoint.

Why not the whole history? Nobody goes on from the middle of a turn. A sealed thread keeps its last checkpoint, with
the values that LangGraph would otherwise rebuild from all checkpoints before it, and the subgraphs that are paused.
Its size is that of the conversation; with superseded threads forgotten, so is the size of what is stored.

`sqlite_states.py` keeps them in a file of one conversation, `postgres_states.py` in a schema that the workers of all
gateways share. This is what both do, and the seam between.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from protocol import Refusal

# A statement, with a `?` for each of its values; its rows.
Execute = Callable[..., Awaitable[list[tuple[Any, ...]]]]


class States(abc.ABC):
    """Beside one of LangGraph's savers, which comes after it among the bases: what a worker of the protocol needs."""

    TABLES: tuple[str, ...]  # LangGraph's, with a thread_id and a checkpoint_ns
    WRITES: str  # the one of them with what tasks wrote
    HOLD = ""  # ends a SELECT whose row must stay as it is until the transaction is over
    FAILURES: tuple[type[Exception], ...]  # how the database fails

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Make the database ready. Called once, before any run."""

    @abc.abstractmethod
    def transaction(self) -> contextlib.AbstractAsyncContextManager[Execute]:
        """All that is executed in it, or nothing."""

    @abc.abstractmethod
    async def columns(self, execute: Execute, table: str) -> set[str]: ...

    async def open(self, thread_id: str, base: str | None) -> None:
        """Make `thread_id` the state that `base` names, whole or not at all.

        Raises `Refusal`: `unknown_head`, or `bad_request` for a thread that was there before.
        """
        async with self.transaction() as execute:
            if await execute("SELECT 1 FROM threads WHERE thread_id = ?", thread_id):
                raise Refusal("bad_request", "the thread_id is not new")
            await execute("INSERT INTO threads (thread_id) VALUES (?)", thread_id)
            if base is None:
                return
            found = await execute(f"SELECT thread_id FROM threads WHERE head = ?{self.HOLD}", base)
            if not found:
                raise Refusal("unknown_head", "there is no such state")
            for table in self.TABLES:
                columns = ", ".join(await self.columns(execute, table) - {"thread_id"})
                copy = f"INSERT INTO {table} (thread_id, {columns}) SELECT ?, {columns} FROM {table} WHERE thread_id = ?"
                await execute(copy, thread_id, found[0][0])

    async def seal(self, thread_id: str, graph: Any, paused: Collection[str]) -> str | None:
        """Close a thread for good and name its state; None, and no thread, when nothing was ever stored.

        `paused` are the tasks the state waits for: their subgraphs are kept.
        """
        last = await self.aget_tuple({"configurable": {"thread_id": thread_id}})
        if last is None:
            await self.forget([thread_id])
            return None
        await self._make_whole(last, graph)
        checkpoint_id = last.checkpoint["id"]
        head = f"{thread_id}:{checkpoint_id}"
        async with self.transaction() as execute:
            # First: where a late write holds the thread, it is waited for.
            await execute("UPDATE threads SET head = ? WHERE thread_id = ?", head, thread_id)
            await self.keep_only(execute, thread_id, checkpoint_id, paused)
        return head

    async def mark(self, thread_id: str) -> tuple[int, str | None]:
        """Tells whether something was stored since: rows and last checkpoint of a thread that is open."""
        sql = (
            f"SELECT (SELECT count(*) FROM checkpoints WHERE thread_id = ?) + (SELECT count(*) FROM {self.WRITES} WHERE thread_id = ?),"
            " (SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = '')"
        )
        async with self.transaction() as execute:
            ((rows, last),) = await execute(sql, thread_id, thread_id, thread_id)
        return rows, last

    async def forget(self, thread_ids: Iterable[str]) -> None:
        """Drop threads, sealed or left behind. Unknown ones are no error: forgetting can be asked for twice."""
        async with self.transaction() as execute:
            for thread_id in sorted(set(thread_ids)):
                # `threads` first: who copies from it has come before, or finds nothing.
                for table in ("threads", *self.TABLES):
                    await execute(f"DELETE FROM {table} WHERE thread_id = ?", thread_id)

    async def keep_only(self, execute: Execute, thread_id: str, checkpoint_id: str, paused: Collection[str]) -> None:
        """Drop all but that checkpoint, and what hangs on it."""
        for table in self.TABLES:
            namespaces = await execute(f"SELECT DISTINCT checkpoint_ns FROM {table} WHERE thread_id = ?", thread_id)
            for (namespace,) in namespaces:
                if namespace and not _is_needed(namespace, paused):
                    await execute(f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?", thread_id, namespace)
        for table in ("checkpoints", self.WRITES):
            sql = f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id <> ?"
            await execute(sql, thread_id, checkpoint_id)

    # What LangGraph calls. A cancelled run leaves no write half done: each is carried through, and it is the database
    # that says whether the thread still takes it.

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.shield(self.carried_through(super().aput(*args, **kwargs)))

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await asyncio.shield(self.carried_through(super().aput_writes(*args, **kwargs)))

    async def carried_through(self, write: Awaitable[Any]) -> Any:
        return await write

    async def _make_whole(self, last: CheckpointTuple, graph: Any) -> None:
        """Store the values that the checkpoint leaves to its ancestors with it."""
        values = last.checkpoint["channel_values"]
        versions = last.checkpoint["channel_versions"]
        missing = [
            name
            for name, channel in graph.channels.items()
            if isinstance(channel, DeltaChannel) and name in versions and name not in values
        ]
        if not missing:
            return
        histories = await self.aget_delta_channel_history(config=last.config, channels=missing)
        filled = dict(values)
        for name in missing:
            history = histories[name]
            spec = graph.channels[name]
            channel = spec.from_checkpoint(history.get("seed", _DeltaSnapshot(spec.typ())))
            channel.replay_writes(history["writes"])
            filled[name] = _DeltaSnapshot(channel.get())
        place = dict(last.config["configurable"])
        place["checkpoint_id"] = last.parent_config and last.parent_config["configurable"]["checkpoint_id"]
        whole = {**last.checkpoint, "channel_values": filled}
        await self.aput({"configurable": place}, whole, last.metadata, {name: versions[name] for name in missing})


def _is_needed(namespace: str, paused: Collection[str]) -> bool:
    """A namespace is `node:task|node:task…`. Without a task it is a subgraph with a memory of its own, kept always."""
    _, _, task = namespace.partition("|")[0].partition(":")
    return not task or task in paused
