"""What every engine does for operations: it runs them, and keeps what they wrote."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from florin_server.store.engine.notices import Notices
from florin_server.store.engine.query import Operation, T
from florin_server.store.payments.cache import PaymentCache
from florin_server.store.payments.reader import PaymentReader

__all__ = ["Fault", "PoolUse", "Store"]

# what an operation came to that wants to know more than one question
MORE: Final[Any] = object()

# called with the name of a durable step: "op" (an operation has run), "commit" (a group is about to
# be committed), "committed" (it is on disk, its callers do not know yet), "retry" (an operation is
# begun anew)
Fault: TypeAlias = Callable[[str], None]


class Writes(Protocol):
    """Who makes operations durable, several together."""

    @property
    def busy(self) -> bool:
        """True while an operation waits for its commit."""

    @property
    def queued(self) -> int:
        """How many operations wait for their commit."""

    def submit(self, op: Operation[T]) -> asyncio.Future[T]:
        """Queues an operation; the future is done once its commit is on disk."""


class PoolUse(NamedTuple):
    """How many connections of a kind are in use, may be, and how many callers wait for one."""

    in_use: int
    size: int
    waiting: int


class Store(ABC):
    """Everything that is remembered. Made by `open_store`, once in a process."""

    def __init__(
        self,
        engine: str,
        writer: Writes,
        *,
        reads_at_once: int = 0,
        cache: PaymentCache | None = None,
    ) -> None:
        # name and version
        self.engine = engine
        self.reader = PaymentReader(self.read, at_once=reads_at_once, cache=cache)
        self._writes = writer
        self._long: set[CodeType] = set()

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the store is, for people; never with a password."""

    @property
    @abstractmethod
    def exclusive(self) -> bool:
        """No other process has this store: leases of former ones may be taken over at once."""

    @property
    def notices(self) -> Notices | None:
        """How processes that have it tell each other something; None if they cannot."""
        return None

    async def time_us(self) -> int | None:
        """Return the time by the server's own clock, in microseconds since the Unix epoch.

        None where no other machine has the store: its time is this machine's.
        """
        return None

    @abstractmethod
    async def probe(self) -> None:
        """Return once the store has answered; StoreUnavailable if it does not.

        However busy it is: a caller that waits for others says nothing about the store.
        """

    @property
    def identity(self) -> str:
        """Which server, on which timeline, took the newest connection that writes.

        Empty where no other server can take over, or where the engine has no such numbers.
        """
        return ""

    @property
    def pools(self) -> Mapping[str, PoolUse]:
        """How connections to a server are used, by kind; none where there is no server."""
        return {}

    @property
    def busy(self) -> bool:
        """True while something waits to be durable."""
        return self._writes.busy

    @property
    def queued(self) -> int:
        """How many operations wait to be durable."""
        return self._writes.queued

    async def write(self, op: Operation[T]) -> T:
        """Runs an operation and returns once it is durable; if it raises, nothing of it is kept.

        StoreUnavailable leaves open, where a connection broke during the commit, whether it was
        kept. So does a caller that is cancelled.
        """
        return await self._writes.submit(op)

    @abstractmethod
    async def read(self, op: Operation[T]) -> T:
        """Runs an operation that only reads, on one snapshot of what is committed."""

    @abstractmethod
    async def survey(self, op: Operation[T]) -> T:
        """Runs an operation that looks at many rows, on one snapshot.

        A few at a time; the event loop and other reads go on meanwhile.
        """

    @abstractmethod
    async def filled(self) -> None:
        """To be called when many rows came at once, before anybody looks for them."""

    @abstractmethod
    async def close(self) -> None:
        """Commits what is queued and lets go of the store; once more does nothing."""

    def _asks_once(self, op: Operation[Any]) -> bool:
        """True unless an operation of its kind has asked more than one question before.

        One question sees one state by itself, and needs no transaction.
        """
        return op.steps.__code__ not in self._long

    def _asks_more(self, op: Operation[Any]) -> None:
        """One of its kind has asked more."""
        self._long.add(op.steps.__code__)
