"""A connection: statements prepared once, transactions, and whether they changed anything."""

from __future__ import annotations

from typing import Any, Literal

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from florin_server.store.engine.postgres.errors import DriverError
from florin_server.store.engine.query import Operation, Query, Row, Statement, T
from florin_server.store.engine.where import Database

Kind = Literal["write", "read", "survey"]

_CONNECT_S = 5.0
# a statement that takes longer is ended by the server; one that hangs, by us
_STATEMENT_S = {"write": 10, "read": 10, "survey": 600}
_GRACE_S = 5
_ANALYZE_S = 600
# whoever waits longer for a lock begins anew: others may wait for what it has
_LOCK_S = 2
# a process that hangs keeps others from rows no longer than this
_IDLE_S = 10


class Connection:
    """One connection to PostgreSQL; errors are the driver's own."""

    def __init__(self, raw: asyncpg.Connection[Any], *, serializable: bool) -> None:
        self._raw = raw
        self._begin_snapshot = "BEGIN" if serializable else "BEGIN ISOLATION LEVEL REPEATABLE READ"
        self._prepared: dict[Statement, PreparedStatement[Any]] = {}
        # how often something was written in it
        self.changes = 0

    @classmethod
    async def to(cls, database: Database, kind: Kind) -> Connection:
        """Connects; what it may do depends on what it is for."""
        writes = kind == "write"
        isolation = "serializable" if database.serializable else "read committed"
        seconds = _STATEMENT_S[kind]
        raw = await asyncpg.connect(
            database.dsn,
            timeout=_CONNECT_S,
            command_timeout=seconds + _GRACE_S,
            # every statement is prepared here, once
            statement_cache_size=0,
            server_settings={
                "application_name": f"florin-{kind}",
                "default_transaction_isolation": isolation if writes else "repeatable read",
                "default_transaction_read_only": "off" if writes else "on",
                "synchronous_commit": "on",
                "statement_timeout": f"{seconds}s",
                "lock_timeout": f"{_LOCK_S}s",
                "idle_in_transaction_session_timeout": f"{_IDLE_S}s",
                # compiling costs more than these statements take
                "jit": "off",
            },
        )
        return cls(raw, serializable=database.serializable)

    @property
    def usable(self) -> bool:
        """False once it is closed, or left in a transaction."""
        return not self._raw.is_closed() and not self._raw.is_in_transaction()

    async def query(self, query: Query) -> list[Row]:
        """Runs one query."""
        compiled = query.statement.postgres
        prepared = self._prepared.get(query.statement)
        if prepared is None:
            prepared = await self._raw.prepare(compiled.sql)
            self._prepared[query.statement] = prepared
        if query.many is not None:
            await prepared.executemany([compiled.values(one) for one in query.many])
            self.changes += 1
            return []
        found = await prepared.fetch(*compiled.values(query.params))
        told = prepared.get_statusmsg()
        if not told.startswith("SELECT") and not told.endswith(" 0"):
            self.changes += 1
        return compiled.rows([tuple(row) for row in found])

    async def run(self, op: Operation[T]) -> T:
        """Drives an operation to its end, in whatever transaction is open."""
        steps = iter(op)
        try:
            query = next(steps)
            while True:
                query = steps.send(await self.query(query))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def begin(self, *, snapshot: bool = False) -> None:
        """Opens a transaction; one on a `snapshot` sees one state, as those that read always do."""
        await self._raw.execute(self._begin_snapshot if snapshot else "BEGIN")

    async def commit(self) -> None:
        """Ends it; what was written is on disk from now on."""
        if (told := await self._raw.execute("COMMIT")) != "COMMIT":
            raise asyncpg.InterfaceError(f"the transaction could not be committed: {told}")

    async def analyze(self) -> None:
        """Counts what is in the tables, for plans; takes seconds where there are many rows."""
        await self.begin()
        try:
            await self._raw.execute("SET LOCAL statement_timeout = 0")
            await self._raw.execute("ANALYZE", timeout=_ANALYZE_S)
            await self.commit()
        finally:
            if self._raw.is_in_transaction():
                await self.give_up()

    async def give_up(self) -> None:
        """Rolls back what is open; closes the connection if that cannot be done."""
        try:
            if not self._raw.is_closed():
                await self._raw.execute("ROLLBACK")
        except DriverError:
            self.drop()

    def drop(self) -> None:
        """Closes it at once."""
        self._raw.terminate()

    async def close(self) -> None:
        """Takes leave of the server."""
        await self._raw.close(timeout=_GRACE_S)
