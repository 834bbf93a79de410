"""What every engine does for operations: it runs them, and keeps what they wrote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from florin_server.store.engine.notices import Notices
from florin_server.store.engine.query import Operation, T
from florin_server.store.payments.reader import PaymentReader

__all__ = ["Fault", "Store"]

# called with the name of a durable step: "op" (an operation has run), "commit" (a group is about to
# be committed), "committed" (it is on disk, its callers do not know yet)
Fault: TypeAlias = Callable[[str], None]


class Store(ABC):
    """Everything that is remembered. Made by `open_store`, once in a process."""

    def __init__(self, engine: str, *, reads_at_once: bool = False) -> None:
        # name and version
        self.engine = engine
        self.reader = PaymentReader(self.read, at_once=reads_at_once)

    @property
    @abstractmethod
    def exclusive(self) -> bool:
        """No other process has this store: leases of former ones may be taken over at once."""

    @property
    def notices(self) -> Notices | None:
        """How processes that have it tell each other something; None if they cannot."""
        return None

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True while something waits to be durable."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """How many operations wait to be durable."""

    @abstractmethod
    async def write(self, op: Operation[T]) -> T:
        """Runs an operation and returns once it is durable; if it raises, nothing of it is kept.

        StoreUnavailable leaves open, where a connection broke during the commit, whether it was
        kept. So does a caller that is cancelled.
        """

    @abstractmethod
    async def read(self, op: Operation[T]) -> T:
        """Runs an operation that only reads, on one snapshot of what is committed."""

    @abstractmethod
    async def survey(self, op: Operation[T]) -> T:
        """Runs an operation that looks at many rows, on one snapshot.

        A few at a time; the event loop and other reads go on meanwhile.
        """

    @abstractmethod
    async def close(self) -> None:
        """Commits what is queued and lets go of the store; once more does nothing."""
