"""States in a schema of a PostgreSQL database: the workers of all gateways find them.

Where the server is, and as whom, libpq's own variables say (PGHOST, PGUSER, PGPASSWORD or PGPASSFILE, PGSERVICE, …): a
password is never an argument. A server over the network must show a certificate for its name, unless PGSSLMODE or
a service says otherwise. Between turns a worker soon holds no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Collection
from typing import Any

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import AsyncConnection, sql
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from states import Execute, States

CONNECT_WITHIN = 10  # seconds to reach the server, at the start and after it was away
IDLE = 5.0  # seconds after which a connection that nobody uses is given up
LOCK = 0x43575701  # the first number of the advisory lock; the second is a hash of the schema's name

# Like a gateway's: what is acknowledged is on the server's disk. `remote_apply` and `remote_write` stay.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')"

# A late write and the seal of its thread wait for each other by the row of the thread, so that none lands behind it.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS threads (
    thread_id text PRIMARY KEY,
    head text UNIQUE  -- NULL while its run is at work, or was killed at it
);
CREATE OR REPLACE FUNCTION only_in_an_open_thread() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM 1 FROM threads WHERE thread_id = NEW.thread_id AND head IS NULL FOR SHARE;
    IF NOT FOUND THEN RAISE EXCEPTION 'the thread is sealed'; END IF;
    RETURN NEW;
END $$;
""" + "".join(
    f"""
DROP TRIGGER IF EXISTS only_in_an_open_thread ON {table};
CREATE TRIGGER only_in_an_open_thread BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION only_in_an_open_thread();
"""
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
)
_VERSION = 1  # of the statements above; a later one must leave workers of this one able to go on
_MARK = "states of causeway workers"  # in the comment of the schema, before the versions


class PostgresStates(States, AsyncPostgresSaver):
    TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    WRITES = "checkpoint_writes"
    HOLD = " FOR SHARE"
    FAILURES = (psycopg.Error, PoolTimeout)

    @classmethod
    @contextlib.asynccontextmanager
    async def in_schema(cls, schema: str) -> AsyncIterator[PostgresStates]:
        """Raises `psycopg.Error` where the server cannot be used."""
        if "PGSSLMODE" not in os.environ and "PGSERVICE" not in os.environ:
            os.environ["PGSSLMODE"] = "verify-full"
            os.environ.setdefault("PGSSLROOTCERT", "system")
        options = {
            "autocommit": True,
            "connect_timeout": CONNECT_WITHIN,
            "fallback_application_name": "causeway-worker",
        }
        if "PGTARGETSESSIONATTRS" not in os.environ:
            options["target_session_attrs"] = "read-write"

        async def configure(connection: AsyncConnection[Any]) -> None:
            await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
            await connection.execute(_DURABLE)

        # On a connection of its own: a pool tries again and again, and does not say what is wrong.
        async with await AsyncConnection.connect("", **options) as connection:
            await configure(connection)
            await _make(connection, schema)
        pool = AsyncConnectionPool(
            "",
            kwargs=options,
            min_size=0,
            max_size=1,
            max_idle=IDLE,
            timeout=CONNECT_WITHIN,
            configure=configure,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        async with pool:
            yield cls(pool)

    async def prepare(self) -> None:
        """Done before there is one."""

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Execute]:
        async with self.lock, self.conn.connection() as connection, connection.transaction():

            async def execute(statement: str, *values: Any) -> list[tuple[Any, ...]]:
                cursor = await connection.execute(statement.replace("?", "%s"), values)
                return await cursor.fetchall() if cursor.description else []

            yield execute

    async def columns(self, execute: Execute, table: str) -> set[str]:
        found = "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?"
        return {name for (name,) in await execute(found, table)}

    async def keep_only(self, execute: Execute, thread_id: str, checkpoint_id: str, paused: Collection[str]) -> None:
        await super().keep_only(execute, thread_id, checkpoint_id, paused)
        # The values of channels stand apart, by version: those that no checkpoint names any more.
        await execute(
            "DELETE FROM checkpoint_blobs WHERE thread_id = ? AND (checkpoint_ns, channel, version) NOT IN ("
            " SELECT c.checkpoint_ns, v.key, v.value FROM checkpoints c, jsonb_each_text(c.checkpoint -> 'channel_versions') v"
            " WHERE c.thread_id = ?)",
            thread_id,
            thread_id,
        )


async def _make(connection: AsyncConnection[Any], schema: str) -> None:
    """Brings the schema up to date, one worker at a time."""

    async def one(statement: str, *values: Any) -> Any:
        row = await (await connection.execute(statement, values)).fetchone()
        return row and row[0]

    ours = (_VERSION, len(AsyncPostgresSaver.MIGRATIONS))

    async def found() -> tuple[int, ...]:
        """What the schema has seen; a newer worker, which was there before, has seen to us too."""
        mark = await one("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", schema)
        made, _, numbers = (mark or "").rpartition(" ")
        return tuple(map(int, numbers.split("."))) if made == _MARK else ()

    if await found() >= ours:
        return
    # Asked again and again rather than waited for: LangGraph makes its indexes CONCURRENTLY, which waits for every
    # statement that is at work, also for one that waits for this lock.
    while not await one("SELECT pg_try_advisory_lock(%s, hashtext(%s))", LOCK, schema):
        await asyncio.sleep(0.1)
    try:
        name = sql.Identifier(schema)
        if not await one("SELECT 1 FROM pg_namespace WHERE nspname = %s", schema):
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        if await found() < ours:
            await AsyncPostgresSaver(connection).setup()
            mark = f"{_MARK} {'.'.join(map(str, ours))}"
            async with connection.transaction():
                await connection.execute(_SCHEMA)
                await connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(name, sql.Literal(mark)))
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", (LOCK, schema))
