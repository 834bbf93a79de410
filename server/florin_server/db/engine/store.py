"""The interface of every engine: it runs operations and stores their writes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from florin_server.db.engine.entity_cache import EntityCache
from florin_server.db.engine.entity_reader import EntityQueries, EntityReader
from florin_server.db.engine.notices import NotificationChannel
from florin_server.db.engine.partitions import (
    KEPT_MAX,
    MonthPartition,
    PartitionReplacement,
    PartitionStatus,
)
from florin_server.db.engine.query import Operation, Query, StoreError, T
from florin_server.domain.payments.payment import Payment

__all__ = ["FaultHook", "PoolUse", "Store"]

# the result of an operation that has more than one query
MULTI_QUERY: Final[Any] = object()

# called with the name of a durable step: "op" (an operation has run), "commit" (a group is about to
# be committed), "committed" (it is on disk, but its callers do not know yet), "retry" (an operation
# is retried)
FaultHook: TypeAlias = Callable[[str], None]


class OperationWriter(Protocol):
    """A writer that makes operations durable, several together."""

    @property
    def is_busy(self) -> bool:
        """Return True while an operation waits for its commit."""

    @property
    def queued_count(self) -> int:
        """Return how many operations wait for their commit."""

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Queue an operation; the future is done once its commit is on disk."""


class PoolUse(NamedTuple):
    """Connections of a kind in use, their limit, and the number of waiting callers."""

    in_use: int
    size: int
    waiting: int


PaymentQueries: TypeAlias = EntityQueries[Payment]


class Store(ABC):
    """The service's stored state. `open_store` makes it, once per process.

    `payments` reads payments by id, by the queries that the engine is given.
    """

    def __init__(
        self,
        engine: str,
        writer: OperationWriter,
        payment_queries: PaymentQueries,
        *,
        immediate_reads: int = 0,
        cache: EntityCache[Payment] | None = None,
    ) -> None:
        # name and version
        self.engine = engine
        self.payments = EntityReader(
            self.read, payment_queries, immediate_reads=immediate_reads, cache=cache
        )
        self._writes = writer
        self._long: set[CodeType] = set()

    @property
    @abstractmethod
    def location(self) -> str:
        """Return the store's location for people, without any password."""

    @property
    @abstractmethod
    def is_exclusive(self) -> bool:
        """Return True if no other process has this store, so old leases can be taken at once."""

    @property
    def notification_channel(self) -> NotificationChannel | None:
        """Return the channel between processes of the store; None if it has no channel."""
        return None

    async def time_us(self) -> int | None:
        """Return the server's own time, in microseconds since the Unix epoch.

        Return None if the store is on this machine: its time is this machine's.
        """
        return None

    @abstractmethod
    async def probe(self) -> None:
        """Return once the store has answered; raise StoreUnavailable if it does not.

        The probe does not wait behind other callers: their wait says nothing about the store.
        """

    @property
    def identity(self) -> str:
        """Return which server, on which timeline, has the newest writing connection.

        Empty if no other server can take over, or the engine does not report it.
        """
        return ""

    @property
    def pools(self) -> Mapping[str, PoolUse]:
        """Return the use of server connections by kind; empty without a server."""
        return {}

    @property
    def is_busy(self) -> bool:
        """Return True while an operation waits to be durable."""
        return self._writes.is_busy

    @property
    def queued_count(self) -> int:
        """Return how many operations wait to be durable."""
        return self._writes.queued_count

    async def write(self, op: Operation[T]) -> T:
        """Run an operation and return once it is durable; if it raises, nothing of it is kept.

        After StoreUnavailable during a commit, the outcome is unknown. The same holds for a caller
        that is cancelled.
        """
        return await self._writes.submit(op)

    @abstractmethod
    async def read(self, op: Operation[T]) -> T:
        """Run an operation that only reads, on one snapshot of the committed data."""

    @abstractmethod
    async def scan(self, op: Operation[T]) -> T:
        """Run an operation that reads many rows, on one snapshot.

        Only a few run at a time; the event loop and other reads continue meanwhile.
        """

    async def scan_standby(self, op: Operation[T]) -> T:
        """Run an operation as `scan` does, on a standby if one is set and close behind.

        What was committed in the last seconds may be missing, so nothing is decided by it.
        """
        return await self.scan(op)

    @property
    def standby_problem(self) -> str | None:
        """Return why the standby is not read at present; empty if it is, None without one."""
        return None

    async def probe_standby(self) -> None:  # noqa: B027  (most stores have none)
        """Find out whether the standby may be read; `standby_problem` is the result."""

    @property
    def can_partition(self) -> bool:
        """Return whether the engine can keep payments in partitions by month."""
        return False

    async def list_partitions(self) -> list[MonthPartition]:
        """Return the partitions of payments by month, oldest first; none without partitions.

        Payments in default partitions are in none of them.
        """
        return []

    async def replace_partition(
        self,
        month: str,
        retained: Query,  # noqa: ARG002
        kept_max: int = KEPT_MAX,  # noqa: ARG002
    ) -> PartitionReplacement:
        """Empty the partition of a month except for the payments that a query selects.

        `retained` selects their ids, as `Query(statement, params)`; it runs once no other session
        can write to these payments. All tables with partitions are emptied in one transaction.
        Nothing changes if more than `kept_max` would be kept. Raise StoreError for an unknown
        month, StoreUnavailable while other sessions read or write it.
        """
        raise StoreError(f"the store has no partition {month}")

    async def merge_partition(
        self,
        month: str,
        payments_max: int = KEPT_MAX,  # noqa: ARG002
    ) -> bool:
        """Drop the partitions of the oldest month: their payments and range go to `past`.

        So the number of partitions, which lists and queues have to plan, does not rise with the
        years. Nothing changes, and False is returned, if the two have more than `payments_max`
        payments, because all are copied. Raise StoreError for another month, StoreUnavailable
        while other sessions use them.
        """
        raise StoreError(f"the store has no partition {month}")

    async def read_partition_status(
        self,
        now_us: int,  # noqa: ARG002
    ) -> PartitionStatus | None:
        """Return the state of the partitions; None if the store has none."""
        return None

    async def extend_partitions(self, now_us: int) -> None:  # noqa: B027
        """Create the partitions of the next months, and move rows there from the default ones.

        Raise StoreUnavailable while other sessions keep tables locked; a later call continues.
        """

    @abstractmethod
    async def analyze(self) -> None:
        """Update statistics.

        Call it after many rows were inserted at once, before they are queried.
        """

    @abstractmethod
    async def close(self) -> None:
        """Commit queued operations and close the store; closing again does nothing."""

    def _is_single_query(self, op: Operation[Any]) -> bool:
        """Return True unless an operation of this kind has had more than one query before.

        A single query sees one state without a transaction.
        """
        return op.steps.__code__ not in self._long

    def _mark_multi_query(self, op: Operation[Any]) -> None:
        """Record that an operation of this kind has more than one query."""
        self._long.add(op.steps.__code__)
