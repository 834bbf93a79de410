"""A connection: statements prepared once, transactions, and whether they changed anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from florin_server.store.engine.postgres.errors import DriverError
from florin_server.store.engine.postgres.session import SessionError, find_backend, open_session
from florin_server.store.engine.query import Operation, Query, Row, Statement, T
from florin_server.store.engine.where import Database

Kind = Literal["write", "read", "survey"]

# a statement that takes longer is ended by the server; one that hangs, by us
_STATEMENT_S = {"write": 10, "read": 10, "survey": 600}
_GRACE_S = 5
_ANALYZE_S = 600
# whoever waits longer for a lock begins anew: others may wait for what it has
_LOCK_S = 2
# a process that hangs keeps others from rows no longer than this
_IDLE_S = 10
# the name of the log file that is written: of the control file, the timeline is updated later
_IDENTITY = """SELECT system_identifier AS system,
substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline FROM pg_control_system()"""
_LEVELS = {
    ("write", False): "READ COMMITTED",
    ("write", True): "SERIALIZABLE",
    ("read", False): "REPEATABLE READ",
    ("read", True): "REPEATABLE READ",
    ("survey", False): "REPEATABLE READ",
    ("survey", True): "REPEATABLE READ",
}


class Connection:
    """One connection to PostgreSQL; errors are the driver's own."""

    def __init__(
        self,
        raw: asyncpg.Connection[Any],
        kind: Kind,
        *,
        serializable: bool,
        backend: int | None = None,
        report_astray: Callable[[], None] = lambda: None,
    ) -> None:
        self._raw = raw
        self._report_astray = report_astray
        # each transaction names its level: no default of a session or of a pooler decides on money
        self._begin = _begin(_LEVELS[kind, serializable], kind, backend)
        snapshot = "SERIALIZABLE" if serializable else "REPEATABLE READ"
        self._begin_snapshot = _begin(snapshot, kind, backend)
        self._prepared: dict[Statement, PreparedStatement[Any]] = {}
        # how often something was written in it
        self.changes = 0

    @classmethod
    async def to(
        cls, database: Database, kind: Kind, report_astray: Callable[[], None] = lambda: None
    ) -> Connection:
        """Connect for one kind of use; SessionError if the session does not keep its settings.

        `report_astray` is called when a transaction ran on a server connection of another session.
        """
        writes = kind == "write"
        seconds = _STATEMENT_S[kind]
        raw = await open_session(
            database,
            f"florin-{kind}",
            {
                "default_transaction_isolation": _LEVELS[kind, database.serializable].lower(),
                "default_transaction_read_only": "off" if writes else "on",
                "synchronous_commit": "on",
                "statement_timeout": str(seconds * 1000),
                "lock_timeout": str(_LOCK_S * 1000),
                "idle_in_transaction_session_timeout": str(_IDLE_S * 1000),
            },
            command_timeout_s=seconds + _GRACE_S,
        )
        try:
            backend = await find_backend(raw)
        except BaseException:
            raw.terminate()
            raise
        return cls(
            raw,
            kind,
            serializable=database.serializable,
            backend=backend,
            report_astray=report_astray,
        )

    @property
    def usable(self) -> bool:
        """False once it is closed, or left in a transaction."""
        return not self._raw.is_closed() and not self._raw.is_in_transaction()

    @property
    def server_version(self) -> str:
        """Return the version of the server, as it says it."""
        return str(self._raw.get_settings().server_version)

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
        try:
            await self._raw.execute(self._begin_snapshot if snapshot else self._begin)
        except asyncpg.DivisionByZeroError as error:
            self.drop()
            self._report_astray()
            raise SessionError("a transaction ran on another server connection") from error

    async def commit(self) -> None:
        """Ends it; what was written is on disk from now on."""
        if (told := await self._raw.execute("COMMIT")) != "COMMIT":
            raise asyncpg.InterfaceError(f"the transaction could not be committed: {told}")

    async def time_us(self) -> int:
        """Return the server's time, in microseconds since the Unix epoch."""
        told = await self._raw.fetchval(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        )
        return int(told)

    async def identity(self) -> str:
        """Return the server's system identifier and timeline; empty if it does not report them.

        A standby that is promoted begins a timeline of its own.
        """
        try:
            told = await self._raw.fetchrow(_IDENTITY)
        except asyncpg.PostgresError:
            # engines that only speak the protocol have neither
            return ""
        return f"system {told['system']}, timeline {int(told['timeline'], 16)}"

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


def _begin(level: str, kind: Kind, backend: int | None) -> str:
    """Return the text that opens a transaction; behind a pooler it fails on another backend."""
    # a server that became a replica refuses writes by a code of its own, READ WRITE by a vague one
    text = f"BEGIN ISOLATION LEVEL {level}{'' if kind == 'write' else ' READ ONLY'}"
    # a pooler may change its mode while it runs
    return text if backend is None else f"{text}; SELECT 1 / (pg_backend_pid() = {backend})::int"
