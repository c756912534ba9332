"""The states of conversations: a thread for every run, a head for every state, in one SQLite file.

A run works in a thread of its own, begun as a copy of the thread its base names. When it is over the thread is
sealed: it gets a head, and from then on the file itself refuses to write to it (a trigger), whoever tries: a tool
that outlived its cancel, a second worker. So a head names one state for good.

Why a copy, when LangGraph can start from any checkpoint of a thread? Because the answer to a pause stays beside
the paused checkpoint and is found again by whoever starts there next; because a subgraph goes on from the newest
checkpoint of its namespace, whatever the root started from; and because two pauses inside one tool share a checkpoint.

Why not the whole history? Nobody goes on from the middle of a turn. A sealed thread keeps its last checkpoint, with
the values that LangGraph would otherwise rebuild from all checkpoints before it, and the subgraphs that are paused.
Its size is that of the conversation; with superseded threads forgotten, so is the size of the file.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from protocol import Refusal

_TABLES = ("checkpoints", "writes")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS threads (
    thread_id TEXT PRIMARY KEY,
    head TEXT UNIQUE  -- NULL while its run is at work, or was killed at it
) WITHOUT ROWID;
""" + "".join(
    f"""
CREATE TRIGGER IF NOT EXISTS {table}_only_in_an_open_thread BEFORE INSERT ON {table}
WHEN NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = NEW.thread_id AND head IS NULL)
BEGIN SELECT RAISE(ABORT, 'the thread is sealed'); END;
"""
    for table in _TABLES
)


class States(AsyncSqliteSaver):
    """LangGraph's own saver, and what a worker of the protocol needs around it."""

    async def prepare(self) -> None:
        """Make the file ready. Called once, before any run."""
        # Takes effect in a new file only: what forgetting frees goes back to the disk.
        await self.conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
        await self.setup()
        async with self.lock:
            await self.conn.executescript(_SCHEMA)
            await self.conn.commit()

    async def open(self, thread_id: str, base: str | None) -> None:
        """Make `thread_id` the state that `base` names, whole or not at all.

        Raises `Refusal`: `unknown_head`, or `bad_request` for a thread that was there before.
        """
        async with self.lock:
            try:
                await self._open(thread_id, base)
                await self.conn.commit()
            except BaseException:
                await self.conn.rollback()
                raise

    async def _open(self, thread_id: str, base: str | None) -> None:
        try:
            await self.conn.execute("INSERT INTO threads (thread_id) VALUES (?)", (thread_id,))
        except sqlite3.IntegrityError:
            raise Refusal("bad_request", "the thread_id is not new") from None
        if base is None:
            return
        found = list(await self.conn.execute_fetchall("SELECT thread_id FROM threads WHERE head = ?", (base,)))
        if not found:
            raise Refusal("unknown_head", "there is no such state")
        for table in _TABLES:
            columns = ", ".join(await self._columns(table) - {"thread_id"})
            copy = f"INSERT INTO {table} (thread_id, {columns}) SELECT ?, {columns} FROM {table} WHERE thread_id = ?"
            await self.conn.execute(copy, (thread_id, found[0][0]))

    async def seal(self, thread_id: str, graph: Any, paused: Collection[str]) -> str | None:
        """Close a thread for good and name its state; None, and no thread, when nothing was ever stored.

        `paused` are the tasks the state waits for: their subgraphs are kept.
        """
        last = await self.aget_tuple({"configurable": {"thread_id": thread_id}})
        whole = last and await self._whole(last, graph)
        async with self.lock:
            try:
                if last is None:
                    head = None
                    await self._drop([thread_id])
                else:
                    checkpoint_id = last.checkpoint["id"]
                    head = f"{thread_id}:{checkpoint_id}"
                    await self._keep_only(thread_id, checkpoint_id, paused)
                    if whole is not None:
                        await self.conn.execute(
                            "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?",
                            (*whole, thread_id, checkpoint_id),
                        )
                    await self.conn.execute("UPDATE threads SET head = ? WHERE thread_id = ?", (head, thread_id))
                await self.conn.commit()
            except BaseException:
                await self.conn.rollback()
                raise
        return head

    async def mark(self, thread_id: str) -> tuple[int, str | None]:
        """Tells whether something was stored since: rows and last checkpoint of a thread that is open."""
        sql = (
            "SELECT (SELECT count(*) FROM checkpoints WHERE thread_id = ?1) + (SELECT count(*) FROM writes WHERE thread_id = ?1),"
            " (SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = '')"
        )
        async with self.lock:
            (row,) = await self.conn.execute_fetchall(sql, (thread_id,))
        return row[0], row[1]

    async def forget(self, thread_ids: Iterable[str]) -> None:
        """Drop threads, sealed or left behind. Unknown ones are no error: forgetting can be asked for twice."""
        async with self.lock:
            try:
                await self._drop(thread_ids)
                await self.conn.commit()
                await self.conn.execute_fetchall("PRAGMA incremental_vacuum")
            except BaseException:
                await self.conn.rollback()
                raise

    # What LangGraph calls. A cancelled run leaves no write half done and no transaction open: each is carried
    # through, and it is the file that says whether the thread still takes it.

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.shield(self._carried_through(super().aput(*args, **kwargs)))

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await asyncio.shield(self._carried_through(super().aput_writes(*args, **kwargs)))

    async def _carried_through(self, write: Any) -> Any:
        try:
            return await write
        except sqlite3.Error:
            async with self.lock:
                await self.conn.rollback()
            raise

    async def _whole(self, last: CheckpointTuple, graph: Any) -> tuple[str, bytes] | None:
        """The last checkpoint with the values it leaves to its ancestors; None when it lacks none."""
        values = last.checkpoint["channel_values"]
        versions = last.checkpoint["channel_versions"]
        missing = [
            name
            for name, channel in graph.channels.items()
            if isinstance(channel, DeltaChannel) and name in versions and name not in values
        ]
        if not missing:
            return None
        histories = await self.aget_delta_channel_history(config=last.config, channels=missing)
        filled = dict(values)
        for name in missing:
            history = histories[name]
            spec = graph.channels[name]
            channel = spec.from_checkpoint(history.get("seed", _DeltaSnapshot(spec.typ())))
            channel.replay_writes(history["writes"])
            filled[name] = _DeltaSnapshot(channel.get())
        return self.serde.dumps_typed({**last.checkpoint, "channel_values": filled})

    async def _keep_only(self, thread_id: str, checkpoint_id: str, paused: Collection[str]) -> None:
        for table in _TABLES:
            namespaces = await self.conn.execute_fetchall(f"SELECT DISTINCT checkpoint_ns FROM {table} WHERE thread_id = ?", (thread_id,))
            done = [(thread_id, ns) for (ns,) in namespaces if ns and not _is_needed(ns, paused)]
            await self.conn.executemany(f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = ?", done)
            await self.conn.execute(
                f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id <> ?", (thread_id, checkpoint_id)
            )

    async def _drop(self, thread_ids: Iterable[str]) -> None:
        for table in (*_TABLES, "threads"):
            await self.conn.executemany(f"DELETE FROM {table} WHERE thread_id = ?", [(each,) for each in thread_ids])

    async def _columns(self, table: str) -> set[str]:
        return {row[1] for row in await self.conn.execute_fetchall(f"PRAGMA table_info({table})")}


def _is_needed(namespace: str, paused: Collection[str]) -> bool:
    """A namespace is `node:task|node:task…`. Without a task it is a subgraph with a memory of its own, kept always."""
    _, _, task = namespace.partition("|")[0].partition(":")
    return not task or task in paused
