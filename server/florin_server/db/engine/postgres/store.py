"""The store on PostgreSQL: any number of processes, durable grouped writes, snapshot reads.

Other processes write too, so an operation that decides on rows locks them, or lets its statement
decide; see CONTRIBUTING.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from florin_server.db.engine.notices import NotificationChannel
from florin_server.db.engine.partitions import (
    KEPT_MAX,
    MonthPartition,
    PartitionReplacement,
    PartitionStatus,
)
from florin_server.db.engine.postgres import schema
from florin_server.db.engine.postgres.connection import ConnectionKind, PostgresConnection
from florin_server.db.engine.postgres.errors import DriverError, is_lost, to_store_error
from florin_server.db.engine.postgres.notices import PostgresNotificationChannel
from florin_server.db.engine.postgres.partitions.partitioner import Partitioner
from florin_server.db.engine.postgres.pool import ConnectionPool
from florin_server.db.engine.postgres.session import require_sessions
from florin_server.db.engine.postgres.standby import Standby
from florin_server.db.engine.postgres.writer import PostgresWriter
from florin_server.db.engine.query import (
    Operation,
    Query,
    StoreError,
    StoreUnavailable,
    T,
)
from florin_server.db.engine.store import (
    MULTI_QUERY,
    FaultHook,
    PaymentQueries,
    PoolUse,
    Store,
)
from florin_server.db.engine.where import DatabaseConfig

# each takes a connection as long as it runs
_SCANS_MAX = 2
_PROBE_S = 3.0


class PostgresStore(Store):
    """A database that other processes may have open too."""

    def __init__(
        self,
        database: DatabaseConfig,
        engine: str,
        queries: PaymentQueries,
        fault_hook: FaultHook,
    ) -> None:
        def pool(kind: ConnectionKind, size: int) -> ConnectionPool:
            return ConnectionPool(partial(self._connect, kind), size)

        self._database = database
        self._astray = False
        self._readers = pool("read", database.readers)
        self._surveys = pool("survey", _SCANS_MAX)
        self._writers = pool("write", database.writers)
        self._probes = pool("read", 1)
        self._standby = (
            Standby(self._connect_standby, _SCANS_MAX, self._probes, database.standby_lag_max_s)
            if database.standby_dsn
            else None
        )
        self._writer = PostgresWriter(self._writers, database.writers, fault_hook)
        super().__init__(engine, self._writer, queries)
        self._partitioner = Partitioner(database)
        self._closed = False
        self._identity = ""
        self._notices = PostgresNotificationChannel(database) if database.notify else None

    @classmethod
    async def open(
        cls, database: DatabaseConfig, queries: PaymentQueries, fault_hook: FaultHook
    ) -> PostgresStore:
        """Open a database; create its tables if it has none, and migrate older tables."""
        return cls(database, await schema.prepare(database), queries, fault_hook)

    @property
    def location(self) -> str:
        """Return the hosts, ports and name of the database."""
        return str(self._database)

    @property
    def is_exclusive(self) -> bool:
        """Return False: leases decide which process does what."""
        return False

    @property
    def identity(self) -> str:
        """Return the server's system identifier and timeline; they change after a failover."""
        return self._identity

    @property
    def notification_channel(self) -> NotificationChannel | None:
        """Return the NOTIFY and LISTEN channel; None if it is disabled."""
        return self._notices

    @property
    def pools(self) -> Mapping[str, PoolUse]:
        """Return the use of server connections, by purpose."""
        usages = {
            "read": self._readers.usage,
            "survey": self._surveys.usage,
            "write": self._writers.usage,
        }
        return usages if self._standby is None else usages | {"standby": self._standby.pool.usage}

    @property
    def standby_problem(self) -> str | None:
        """Return why the standby is not read at present; empty if it is, None without one."""
        return None if self._standby is None else self._standby.problem

    async def read(self, op: Operation[T]) -> T:
        """Run an operation that only reads."""
        return await self._read(self._readers, op)

    async def scan(self, op: Operation[T]) -> T:
        """Run an operation that reads many rows, on separate connections."""
        return await self._read(self._surveys, op)

    async def scan_standby(self, op: Operation[T]) -> T:
        """Run an operation that reads many rows, on the standby if it is close behind."""
        if self._standby is not None and await self._standby.is_usable():
            try:
                return await self._read(self._standby.pool, op)
            except StoreError as error:
                # for example, replaying a change had to cancel the query
                self._standby.disable(error)
        return await self.scan(op)

    async def time_us(self) -> int:
        """Return the time of the server that takes writes; StoreUnavailable if it is down."""
        connection = await self._writers.acquire()
        try:
            return await connection.time_us()
        except DriverError as error:
            raise to_store_error(error) from error
        finally:
            self._writers.release(connection)

    async def probe(self) -> None:
        """Read the server's time on a separate connection."""
        connection = await self._probes.acquire()
        try:
            async with asyncio.timeout(_PROBE_S):
                await connection.time_us()
        except DriverError as error:
            # with a network that loses every packet, the next probe would wait too
            connection.drop()
            why = str(error) or f"no answer within {_PROBE_S:.0f} s"
            raise StoreUnavailable(why) from error
        finally:
            self._probes.release(connection)

    async def probe_standby(self) -> None:
        """Compare the standby with the primary server, if one is set."""
        if self._standby is not None:
            await self._standby.is_usable()

    @property
    def can_partition(self) -> bool:
        """Return whether the settings are those of PostgreSQL itself."""
        return self._database.can_partition

    async def list_partitions(self) -> list[MonthPartition]:
        """Return the partitions of payments by month, oldest first."""
        return await self._partitioner.list_partitions() if self.can_partition else []

    async def replace_partition(
        self, month: str, retained: Query, kept_max: int = KEPT_MAX
    ) -> PartitionReplacement:
        """Empty the partition of a month except for the payments that a query selects."""
        if not self.can_partition:
            return await super().replace_partition(month, retained, kept_max)
        return await self._partitioner.replace(month, retained, kept_max)

    async def merge_partition(self, month: str, payments_max: int = KEPT_MAX) -> bool:
        """Merge the oldest month into the partition before it; False if they are too large."""
        if not self.can_partition:
            return await super().merge_partition(month, payments_max)
        return await self._partitioner.merge(month, payments_max)

    async def read_partition_status(self, now_us: int) -> PartitionStatus | None:
        """Return the state of the partitions; None if the store has none."""
        return await self._partitioner.read_status(now_us) if self.can_partition else None

    async def extend_partitions(self, now_us: int) -> None:
        """Create the partitions of the next months, and move rows there from the default ones."""
        if self.can_partition:
            await self._partitioner.extend(now_us)

    async def analyze(self) -> None:
        """Update the planner's statistics now; otherwise plans would assume empty tables."""
        connection = await self._writers.acquire()
        try:
            await connection.analyze()
        except DriverError as error:
            raise to_store_error(error) from error
        finally:
            self._writers.release(connection)

    async def close(self) -> None:
        """Commit queued operations and close the connections."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        if self._notices is not None:
            await self._notices.close()
        pools = [self._writers, self._readers, self._surveys, self._probes]
        if self._standby is not None:
            pools.append(self._standby.pool)
        await asyncio.gather(*(pool.close() for pool in pools))

    async def _connect(self, kind: ConnectionKind) -> PostgresConnection:
        if self._astray:
            # the pooler has started to share connections
            await require_sessions(self._database)
            self._astray = False
        connection = await PostgresConnection.connect(self._database, kind, self._mark_misrouted)
        if kind == "write":
            self._identity = await connection.identity()
        return connection

    async def _connect_standby(self) -> PostgresConnection:
        database = replace(self._database, dsn=self._database.standby_dsn)
        return await PostgresConnection.connect(database, "survey")

    def _mark_misrouted(self) -> None:
        self._astray = True

    async def _read(self, pool: ConnectionPool, op: Operation[T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            return await self._run_read(pool, op)
        except DriverError as error:
            if not is_lost(error):
                raise to_store_error(error) from error
        # a pooled connection may have broken since; a read can run twice
        try:
            return await self._run_read(pool, op)
        except DriverError as error:
            raise to_store_error(error) from error

    async def _run_read(self, pool: ConnectionPool, op: Operation[T]) -> T:
        connection = await pool.acquire()
        try:
            if self._is_single_query(op):
                if (found_result := await _run_single_query(connection, op)) is not MULTI_QUERY:
                    result: T = found_result
                    return result
                self._mark_multi_query(op)
            await connection.begin()
            try:
                return await connection.run(op)
            finally:
                await connection.rollback()
        finally:
            pool.release(connection)


async def _run_single_query(connection: PostgresConnection, op: Operation[Any]) -> Any:
    """Return the result of a single-query operation, without a transaction; else MULTI_QUERY."""
    steps = iter(op)
    try:
        query = next(steps)
        steps.send(await connection.query(query))
    except StopIteration as stop:
        return stop.value
    return MULTI_QUERY
