"""Quarantines items whose step failed unexpectedly, so that all others continue.

Nothing is lost: an item keeps its state, its transactions stay watched, and nothing is sent for it
until the operator retries it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from florin_server.base.clock import Clock
from florin_server.base.notifier import Notifier
from florin_server.base.topics import Topic
from florin_server.db.engine.query import Operation, StoreError
from florin_server.db.engine.store import Store
from florin_server.domain.errors import ApiError
from florin_server.domain.ids import generate_short_id
from florin_server.domain.quarantine import (
    SUBJECT_MAX,
    QuarantinedItem,
    QuarantinedItemKind,
    QuarantinedItemState,
    QuarantineSubject,
    format_error,
)
from florin_server.operations.store import quarantine as stored
from florin_server.rails.types import RailUnavailable

_log = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

# each error is logged with its traceback, but at most this many in a minute
LOGGED_PER_MINUTE: Final = 10
_MINUTE_US: Final = 60_000_000
_RETENTION_US: Final = 30 * 86_400_000_000
_BATCH_SIZE: Final = 500


def is_unexpected(error: BaseException) -> bool:
    """Return True for an error that no worker waits out: it is the item's own, or a bug.

    A chain or a store that does not answer, a lease that was lost and a call that is refused are
    states of the world, which pass.
    """
    if isinstance(error, StoreError):
        # otherwise the engine refused it: for example a value that fits no column
        return not error.is_transient
    return isinstance(error, Exception) and not isinstance(error, RailUnavailable | ApiError)


class Quarantine:
    """The items that workers of this process leave out, as stored.

    `generation` changes whenever the operator returned an item: workers then check again.
    """

    def __init__(
        self, store: Store, clock: Clock, randbytes: Callable[[int], bytes], notifier: Notifier
    ) -> None:
        self._store = store
        self._clock = clock
        self._randbytes = randbytes
        self._notifier = notifier
        self._items: frozenset[QuarantineSubject] = frozenset()
        # items that could not be stored yet, each with what is written beside it
        self._unwritten_items: dict[
            QuarantineSubject, tuple[QuarantinedItem, Operation[object] | None]
        ] = {}
        self._is_loaded = False
        self._log_times: tuple[int, int] = 0, 0  # start of the count, and the count
        self.version = 0

    def contains(self, kind: QuarantinedItemKind, chain_id: str, subject: str) -> bool:
        """Return True if an item is left out."""
        if not self._items and not self._unwritten_items:
            return False
        quarantine_subject = QuarantineSubject(kind, chain_id, subject[:SUBJECT_MAX])
        return quarantine_subject in self._items or quarantine_subject in self._unwritten_items

    def filter_active(
        self,
        kind: QuarantinedItemKind,
        chain_id: str,
        items: Iterable[I],
        subject: Callable[[I], str],
    ) -> list[I]:
        """Return the items that are not left out, in their order."""
        return [item for item in items if not self.contains(kind, chain_id, subject(item))]

    def count(self, kind: QuarantinedItemKind, chain_id: str) -> int:
        """Return how many items of a kind are left out on a chain."""
        subjects = self._items | self._unwritten_items.keys()
        return sum(subject.kind is kind and subject.chain_id == chain_id for subject in subjects)

    async def load(self) -> None:
        """Read what is left out, unless this process knows it already."""
        if not self._is_loaded:
            await self.reload()

    async def reload(self) -> None:
        """Read what is left out now; another process or the operator may have changed it."""
        subjects = self._items
        self._items = await self._store.read(stored.list_excluded())
        self._is_loaded = True
        if subjects - self._items:
            self.version += 1

    async def list_retried(self, kind: QuarantinedItemKind, chain_id: str) -> list[str]:
        """Return the subjects of a kind that the operator gave back, as long as they are known."""
        return await self._store.read(stored.list_retried(kind, chain_id))

    # -- quarantine

    @asynccontextmanager
    async def isolate(
        self, kind: QuarantinedItemKind, chain_id: str, subject: str, step: str
    ) -> AsyncIterator[None]:
        """Set the item aside if what is done inside fails unexpectedly; others errors pass."""
        try:
            yield
        except Exception as error:
            if not is_unexpected(error):
                raise
            await self.add(kind, chain_id, subject, step, error)

    async def run_each(  # noqa: PLR0917  (one of each, none alike)
        self,
        kind: QuarantinedItemKind,
        chain_id: str,
        items: Sequence[I],
        subject: Callable[[I], str],
        step: str,
        work: Callable[[Sequence[I]], Awaitable[R]],
    ) -> list[R]:
        """Do work for all items at once; if it fails unexpectedly, for each of them alone.

        Return the results of what worked; an item that also fails alone is quarantined.
        """
        try:
            return [await work(items)]
        except Exception as error:
            if not is_unexpected(error):
                raise
            if len(items) == 1:
                await self.add(kind, chain_id, subject(items[0]), step, error)
                return []
            _log.warning(
                "%s of %d items failed; Florin tries each item alone: %s",
                step,
                len(items),
                format_error(error),
            )
        results: list[R] = []
        for item in items:
            async with self.isolate(kind, chain_id, subject(item), step):
                results.append(await work([item]))
        return results

    async def add(  # noqa: PLR0917  (one of each, none alike)
        self,
        kind: QuarantinedItemKind,
        chain_id: str,
        subject: str,
        step: str,
        error: Exception,
        op: Operation[object] | None = None,
    ) -> None:
        """Leave an item out from now on, in this process at once and in all of them soon.

        `op` is written in the same transaction: an operator who retries the item at once finds
        both or neither.
        """
        about = QuarantineSubject(kind, chain_id, subject[:SUBJECT_MAX])
        now_us = self._clock.now_us()
        new = QuarantinedItem(
            id=generate_short_id("qitm_", self._randbytes),
            kind=kind,
            chain_id=chain_id,
            subject=about.id,
            step=step,
            reason=format_error(error),
            state=QuarantinedItemState.SET_ASIDE,
            attempts=1,
            first_at_us=now_us,
            last_at_us=now_us,
        )
        self._log(about, step, error)
        if len(self._unwritten_items) < stored.ITEMS_MAX:
            self._unwritten_items[about] = new, op
        await self.flush()

    async def flush(self) -> None:
        """Store what could not be stored before; raise nothing."""
        for about, (new, beside) in list(self._unwritten_items.items()):
            try:
                written = await self._store.write(stored.put(new, beside))
            except Exception as error:  # noqa: BLE001  (this is what keeps workers alive)
                _log.warning("%s is quarantined in memory only: %s", about, format_error(error))
                return
            if not written:
                # it stays in memory, and is retried after a restart
                _log.error("too many items are quarantined: %s is not stored", about)
                return
            self._items |= {about}
            self._unwritten_items.pop(about, None)
            self._notifier.publish(Topic.QUARANTINE)

    async def delete_old(self) -> None:
        """Delete what was retried long ago."""
        before_us = self._clock.now_us() - _RETENTION_US
        while await self._store.write(stored.forget(before_us, _BATCH_SIZE)) == _BATCH_SIZE:
            pass

    def _log(self, subject: QuarantineSubject, step: str, error: Exception) -> None:
        now_us = self._clock.steady_us()
        since_us, count = self._log_times
        if now_us - since_us >= _MINUTE_US:
            since_us, count = now_us, 0
        self._log_times = since_us, count + 1
        text = "%s is quarantined at step %s; see `florin quarantine list`: %s"
        if count < LOGGED_PER_MINUTE:
            _log.error(text, subject, step, format_error(error), exc_info=error)
        elif count == LOGGED_PER_MINUTE:
            _log.error("more items are quarantined; see `florin quarantine list`")


def describe_by_chain(counts: Collection[tuple[str, QuarantinedItemKind, int]]) -> dict[str, str]:
    """Return what waits for the operator by chain (empty for none), a sentence each."""
    return {
        chain_id: describe([(kind, count) for chain, kind, count in counts if chain == chain_id])
        for chain_id in dict.fromkeys(chain for chain, _, _ in counts)
    }


def describe(counts: Collection[tuple[QuarantinedItemKind, int]]) -> str:
    """Return in a sentence what waits for the operator; empty if nothing does."""
    if not counts:
        return ""
    what = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts)
    return f"quarantined after an unexpected error: {what}: see `florin quarantine list`"
