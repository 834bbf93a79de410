"""Sets items aside whose step failed in a way that nobody foresaw, so that all others continue.

Nothing is lost by that: an item keeps its state, what is on its way for it stays watched, and
nothing is sent for it until the operator has it retried.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from florin_server.clock import Clock
from florin_server.domain.errors import FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.quarantine import (
    SUBJECT_MAX,
    ItemKind,
    ItemState,
    QuarantinedItem,
    Subject,
    describe_error,
)
from florin_server.hints import Hints
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import Operation, StoreError
from florin_server.store.engine.store import Store
from florin_server.store.quarantine import items as stored

_log = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

# each error is logged with its traceback, but no more than so many of them in a minute
LOGGED_A_MINUTE: Final = 10
_MINUTE_US: Final = 60_000_000
_KEPT_US: Final = 30 * 86_400_000_000
_A_BATCH: Final = 500


def is_unexpected(error: BaseException) -> bool:
    """Return True for an error that no worker waits out: it is the item's own, or a bug.

    A chain or a store that does not answer, a lease that was lost and a call that is refused are
    states of the world, which pass.
    """
    if isinstance(error, StoreError):
        # otherwise the engine refused it: a value that fits no column, say
        return not error.passes
    return isinstance(error, Exception) and not isinstance(error, RailUnavailable | FlorinError)


class Quarantine:
    """The items that workers of this process leave out, as they are written down.

    `generation` changes whenever the operator gave something back: who works looks again then.
    """

    def __init__(
        self, store: Store, clock: Clock, randbytes: Callable[[int], bytes], hints: Hints
    ) -> None:
        self._store = store
        self._clock = clock
        self._randbytes = randbytes
        self._hints = hints
        self._left_out: frozenset[Subject] = frozenset()
        # what could not be written down yet, each with what is written beside it
        self._unwritten: dict[Subject, tuple[QuarantinedItem, Operation[object] | None]] = {}
        self._loaded = False
        self._logged: tuple[int, int] = 0, 0  # since when, and how many
        self.generation = 0

    def holds(self, kind: ItemKind, chain_id: str, subject: str) -> bool:
        """Return True if an item is left out."""
        if not self._left_out and not self._unwritten:
            return False
        found = Subject(kind, chain_id, subject[:SUBJECT_MAX])
        return found in self._left_out or found in self._unwritten

    def left_in(
        self, kind: ItemKind, chain_id: str, items: Iterable[I], subject: Callable[[I], str]
    ) -> list[I]:
        """Return the items that are not left out, in their order."""
        return [item for item in items if not self.holds(kind, chain_id, subject(item))]

    def count(self, kind: ItemKind, chain_id: str) -> int:
        """Return how many items of a kind are left out on a chain."""
        known = self._left_out | self._unwritten.keys()
        return sum(one.kind is kind and one.chain_id == chain_id for one in known)

    async def load(self) -> None:
        """Read what is left out, unless this process knows it already."""
        if not self._loaded:
            await self.reload()

    async def reload(self) -> None:
        """Read what is left out now; another process or the operator may have changed it."""
        known = self._left_out
        self._left_out = await self._store.read(stored.left_out())
        self._loaded = True
        if known - self._left_out:
            self.generation += 1

    async def retried(self, kind: ItemKind, chain_id: str) -> list[str]:
        """Return the subjects of a kind that the operator gave back, as long as they are known."""
        return await self._store.read(stored.retried(kind, chain_id))

    # -- setting aside

    @asynccontextmanager
    async def isolating(
        self, kind: ItemKind, chain_id: str, subject: str, step: str
    ) -> AsyncIterator[None]:
        """Set the item aside if what is done inside fails unexpectedly; others errors pass."""
        try:
            yield
        except Exception as error:
            if not is_unexpected(error):
                raise
            await self.set_aside(kind, chain_id, subject, step, error)

    async def each(  # noqa: PLR0917  (one of each, none alike)
        self,
        kind: ItemKind,
        chain_id: str,
        items: Sequence[I],
        subject: Callable[[I], str],
        step: str,
        work: Callable[[Sequence[I]], Awaitable[R]],
    ) -> list[R]:
        """Do work for all items at once; if it fails unexpectedly, for each of them alone.

        Return the results of what worked; what fails alone too is set aside.
        """
        try:
            return [await work(items)]
        except Exception as error:
            if not is_unexpected(error):
                raise
            if len(items) == 1:
                await self.set_aside(kind, chain_id, subject(items[0]), step, error)
                return []
            _log.warning(
                "%s of %d items failed, each is tried alone: %s",
                step,
                len(items),
                describe_error(error),
            )
        results: list[R] = []
        for one in items:
            async with self.isolating(kind, chain_id, subject(one), step):
                results.append(await work([one]))
        return results

    async def set_aside(  # noqa: PLR0917  (one of each, none alike)
        self,
        kind: ItemKind,
        chain_id: str,
        subject: str,
        step: str,
        error: Exception,
        beside: Operation[object] | None = None,
    ) -> None:
        """Leave an item out from now on, in this process at once and in all of them soon.

        What `beside` writes is written in the same transaction: an operator who retries the item
        at once finds both or neither.
        """
        about = Subject(kind, chain_id, subject[:SUBJECT_MAX])
        now_us = self._clock.now_us()
        new = QuarantinedItem(
            id=short_id("qitm_", self._randbytes),
            kind=kind,
            chain_id=chain_id,
            subject=about.id,
            step=step,
            reason=describe_error(error),
            state=ItemState.SET_ASIDE,
            attempts=1,
            first_at_us=now_us,
            last_at_us=now_us,
        )
        self._log(about, step, error)
        if len(self._unwritten) < stored.ITEMS_MAX:
            self._unwritten[about] = new, beside
        await self.flush()

    async def flush(self) -> None:
        """Write down what could not be written before; raise nothing."""
        for about, (new, beside) in list(self._unwritten.items()):
            try:
                written = await self._store.write(stored.put(new, beside))
            except Exception as error:  # noqa: BLE001  (this is what keeps workers alive)
                _log.warning("%s is set aside in memory only: %s", about, describe_error(error))
                return
            if not written:
                # it stays in memory, and is tried again after a restart
                _log.error("too many items are set aside: %s is not written down", about)
                return
            self._left_out |= {about}
            self._unwritten.pop(about, None)
            self._hints.remembered()

    async def forget(self) -> None:
        """Delete what was retried long ago."""
        before_us = self._clock.now_us() - _KEPT_US
        while await self._store.write(stored.forget(before_us, _A_BATCH)) == _A_BATCH:
            pass

    def _log(self, about: Subject, step: str, error: Exception) -> None:
        now_us = self._clock.steady_us()
        since_us, count = self._logged
        if now_us - since_us >= _MINUTE_US:
            since_us, count = now_us, 0
        self._logged = since_us, count + 1
        text = "%s is set aside at step %s: see `florin quarantine list`: %s"
        if count < LOGGED_A_MINUTE:
            _log.error(text, about, step, describe_error(error), exc_info=error)
        elif count == LOGGED_A_MINUTE:
            _log.error("more items are set aside: see `florin quarantine list`")


def by_chain(counts: Collection[tuple[str, ItemKind, int]]) -> dict[str, str]:
    """Return what waits for the operator by chain (empty for none), a sentence each."""
    return {
        chain_id: describe([(kind, count) for chain, kind, count in counts if chain == chain_id])
        for chain_id in dict.fromkeys(chain for chain, _, _ in counts)
    }


def describe(counts: Collection[tuple[ItemKind, int]]) -> str:
    """Return in a sentence what waits for the operator; empty if nothing does."""
    if not counts:
        return ""
    what = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts)
    return f"set aside after an unexpected error: {what}: see `florin quarantine list`"
