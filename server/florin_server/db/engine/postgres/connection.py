"""A connection: prepared statements, transactions, and whether they changed anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from florin_server.db.engine.postgres.errors import DriverError
from florin_server.db.engine.postgres.session import (
    SessionError,
    find_backend,
    make_statement_prefix,
    open_session,
)
from florin_server.db.engine.query import (
    CoreStatement,
    Operation,
    Query,
    T,
)
from florin_server.db.engine.where import DatabaseConfig

ConnectionKind = Literal["write", "read", "survey"]

# the server ends a statement that takes longer; we end one that hangs
_STATEMENT_S = {"write": 10, "read": 10, "survey": 600}
_GRACE_S = 5
_ANALYZE_S = 600
# a longer wait for a lock is given up and retried: others may wait for our locks
_LOCK_S = 2
# a process that hangs blocks rows no longer than this
_IDLE_S = 10
# from the log file being written: the control file's timeline is updated later
_IDENTITY = """SELECT system_identifier AS system,
substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline FROM pg_control_system()"""
_NEWEST_HEARTBEAT = "SELECT id, now_us FROM process ORDER BY now_us DESC, id LIMIT 1"
_HEARTBEAT = "SELECT now_us FROM process WHERE id = $1"
# a standby's rows are of the time at which the newest transaction that it has was committed
_REPLAYED = """SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(
(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint,
(SELECT max(now_us) FROM process), 0) END"""
# Before the snapshot is taken: a partition that is replaced later would be empty in it. A
# replacement waits for long scans, and a scan waits for a replacement that has started.
_KEEP_PARTITIONS = "; LOCK TABLE payment IN ACCESS SHARE MODE"
_LEVELS = {
    ("write", False): "READ COMMITTED",
    ("write", True): "SERIALIZABLE",
    ("read", False): "REPEATABLE READ",
    ("read", True): "REPEATABLE READ",
    ("survey", False): "REPEATABLE READ",
    ("survey", True): "REPEATABLE READ",
}


class PostgresConnection:
    """One connection to PostgreSQL; its errors are the driver's."""

    def __init__(
        self,
        raw: asyncpg.Connection[Any],
        kind: ConnectionKind,
        *,
        serializable: bool,
        backend: int | None = None,
        on_misrouted: Callable[[], None] = lambda: None,
        locks_payments: bool = False,
    ) -> None:
        self._raw = raw
        self._kind = kind
        self._report_astray = on_misrouted
        self._prefix = make_statement_prefix()
        # each transaction names its level, so that no default of a session or pooler applies
        lock = _KEEP_PARTITIONS if locks_payments else ""
        self._begin = _begin_statement(_LEVELS[kind, serializable], kind, backend, lock)
        snapshot = "SERIALIZABLE" if serializable else "REPEATABLE READ"
        self._begin_snapshot = _begin_statement(snapshot, kind, backend, lock)
        self._prepared: dict[CoreStatement, PreparedStatement[Any]] = {}
        # number of writes on it
        self.changes = 0

    @classmethod
    async def connect(
        cls,
        database: DatabaseConfig,
        kind: ConnectionKind,
        on_misrouted: Callable[[], None] = lambda: None,
    ) -> PostgresConnection:
        """Connect for one kind of use; raise SessionError if the session loses its settings.

        `on_misrouted` is called when a transaction ran on a server connection of another session.
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
            on_misrouted=on_misrouted,
            locks_payments=kind == "survey" and database.can_partition,
        )

    @property
    def is_usable(self) -> bool:
        """Return False once it is closed, or left in a transaction."""
        return not self._raw.is_closed() and not self._raw.is_in_transaction()

    @property
    def server_version(self) -> str:
        """Return the server's version text."""
        return str(self._raw.get_settings().server_version)

    async def query(self, query: Query) -> list[Any]:
        """Run one query."""
        compiled = query.statement.postgres
        prepared = self._prepared.get(query.statement)
        if prepared is None:
            prepared = await self._raw.prepare(compiled.sql, name=self._make_statement_name())
            self._prepared[query.statement] = prepared
        try:
            if query.param_rows is not None:
                await prepared.executemany(
                    [compiled.encode_params(params) for params in query.param_rows]
                )
                self.changes += 1
                return []
            records = await prepared.fetch(*compiled.encode_params(query.params))
        except asyncpg.InvalidCachedStatementError:
            # a newer release changed a column; a new connection prepares its statements for that
            self.drop()
            raise
        statusmsg = prepared.get_statusmsg()
        if not statusmsg.startswith("SELECT") and not statusmsg.endswith(" 0"):
            self.changes += 1
        return compiled.read_rows(records)

    def _make_statement_name(self) -> str | None:
        """Return the name of the next statement; None if it is planned on each run.

        A scan costs more than its plan, so that a plan for its own values is better.
        """
        return None if self._kind == "survey" else f"{self._prefix}_{len(self._prepared)}"

    async def run(self, op: Operation[T]) -> T:
        """Run an operation to its end in the open transaction, if any."""
        steps = iter(op)
        try:
            query = next(steps)
            while True:
                query = steps.send(await self.query(query))
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def begin(self, *, snapshot: bool = False) -> None:
        """Open a transaction; with `snapshot` it sees one state, as reads always do."""
        try:
            await self._raw.execute(self._begin_snapshot if snapshot else self._begin)
        except asyncpg.DivisionByZeroError as error:
            self.drop()
            self._report_astray()
            raise SessionError("a transaction ran on another server connection") from error

    async def commit(self) -> None:
        """Commit; the writes are then on disk."""
        if (message := await self._raw.execute("COMMIT")) != "COMMIT":
            raise asyncpg.InterfaceError(
                f"the transaction could not be committed: the server answered {message}"
            )

    async def time_us(self) -> int:
        """Return the server's time, in microseconds since the Unix epoch."""
        now_us = await self._raw.fetchval(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        )
        return int(now_us)

    async def find_replayed_us(self) -> int | None:
        """Return up to when a standby has replayed its primary server; None unless it is one."""
        try:
            replayed_us: int | None = await self._raw.fetchval(_REPLAYED)
        except asyncpg.UndefinedFunctionError:
            # engines that only speak the protocol
            return None
        return replayed_us

    async def find_newest_heartbeat(self) -> tuple[str, int] | None:
        """Return the process that wrote last that it is alive, and its time; None without one."""
        row = await self._raw.fetchrow(_NEWEST_HEARTBEAT)
        return None if row is None else (row["id"], row["now_us"])

    async def find_heartbeat(self, process_id: str) -> int | None:
        """Return the time at which a process wrote that it is alive; None for an unknown one."""
        now_us: int | None = await self._raw.fetchval(_HEARTBEAT, process_id)
        return now_us

    async def identity(self) -> str:
        """Return the server's system identifier and timeline; empty if it does not report them.

        A standby that is promoted starts a new timeline.
        """
        try:
            row = await self._raw.fetchrow(_IDENTITY)
        except asyncpg.PostgresError:
            # engines that only speak the protocol have neither
            return ""
        return f"system {row['system']}, timeline {int(row['timeline'], 16)}"

    async def analyze(self) -> None:
        """Update the planner's statistics; it takes seconds on large tables."""
        await self.begin()
        try:
            await self._raw.execute("SET LOCAL statement_timeout = 0")
            await self._raw.execute("ANALYZE", timeout=_ANALYZE_S)
            await self.commit()
        finally:
            if self._raw.is_in_transaction():
                await self.rollback()

    async def rollback(self) -> None:
        """Roll back; close the connection if that fails."""
        try:
            if not self._raw.is_closed():
                await self._raw.execute("ROLLBACK")
        except DriverError:
            self.drop()

    def drop(self) -> None:
        """Close it at once."""
        self._raw.terminate()

    async def close(self) -> None:
        """Close it, and notify the server."""
        await self._raw.close(timeout=_GRACE_S)


def _begin_statement(level: str, kind: ConnectionKind, backend: int | None, lock: str) -> str:
    """Return the text that opens a transaction; behind a pooler it fails on another backend."""
    # a server that became a replica refuses writes with a specific code, READ WRITE with a vague
    # one
    text = f"BEGIN ISOLATION LEVEL {level}{'' if kind == 'write' else ' READ ONLY'}{lock}"
    # a pooler may change its mode while it runs
    return text if backend is None else f"{text}; SELECT 1 / (pg_backend_pid() = {backend})::int"
