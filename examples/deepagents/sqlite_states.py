"""States in a SQLite file of one conversation, or in memory: of one gateway, since its file is where that gateway is."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from states import Execute, States

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
    for table in ("checkpoints", "writes")
)


class SqliteStates(States, AsyncSqliteSaver):
    TABLES = ("checkpoints", "writes")
    WRITES = "writes"
    FAILURES = (sqlite3.Error,)

    async def prepare(self) -> None:
        # Takes effect in a new file only: what forgetting frees goes back to the disk.
        await self.conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
        await self.setup()
        async with self.lock:
            await self.conn.executescript(_SCHEMA)
            await self.conn.commit()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Execute]:
        async def execute(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            return list(await self.conn.execute_fetchall(sql, values))

        async with self.lock:
            try:
                yield execute
                await self.conn.commit()
            except BaseException:
                await self.conn.rollback()
                raise

    async def columns(self, execute: Execute, table: str) -> set[str]:
        return {row[1] for row in await execute(f"PRAGMA table_info({table})")}

    async def forget(self, thread_ids: Iterable[str]) -> None:
        await super().forget(thread_ids)
        async with self.lock:
            await self.conn.execute_fetchall("PRAGMA incremental_vacuum")

    async def carried_through(self, write: Awaitable[Any]) -> Any:
        try:
            return await write
        except sqlite3.Error:
            async with self.lock:  # no transaction stays open
                await self.conn.rollback()
            raise
