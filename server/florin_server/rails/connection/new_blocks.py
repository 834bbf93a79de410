"""Waiting for new blocks: announcements wake at once, the clock always does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

SLOWER = 10  # times the pace of polling while announcements come
FASTEST_S = 0.2  # between two looks, whatever pace a chain claims
MISSED_MAX = 2  # blocks in a row that only polling found: the announcements are not coming
# Where looks follow the pace of blocks: a look is due a little before the next block. One that
# finds none is repeated soon, for about the time of a block, so that looks stay close to blocks.
BEFORE_BLOCK = 0.75
REPEATED = 0.25
REPEATS_MAX = 4


@dataclass(slots=True)
class Waiter:
    """Who waits: its event, the head that it knew, and how many of its looks found no other."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    head: int = -1
    repeats: int = 0


class News:
    """Tells waiters, each by its name, that there may be a new block.

    `announced` is true while announcements are expected; polling is slower then. `poll_s` are the
    seconds between two looks without them.
    """

    def __init__(self, poll_s: float, *, announced: bool = False) -> None:
        self.announced = announced
        self.silent = asyncio.Event()  # the announcements have not been coming
        self.poll_s = self._slowest_s = poll_s
        self._any = False
        self._follows = False
        self._waiters: dict[str, Waiter] = {}
        self._head = 0
        self._by_clock = False
        self._missed = 0

    def announce(self) -> None:
        """There may be a new block."""
        self._any, self._by_clock, self._missed = True, False, 0
        for one in self._waiters.values():
            one.woken.set()

    async def wait(self, waiter: str = "") -> None:
        """Returns when there may be a new block since last time, or it is time to look.

        One who was never here before has not heard of any.
        """
        one = self._waiters.get(waiter)
        if one is None:
            one = self._waiters[waiter] = Waiter()
            if self._any:
                one.woken.set()
        try:
            async with asyncio.timeout(self.pause_s(one)):
                await one.woken.wait()
        except TimeoutError:
            self._by_clock = True
        one.woken.clear()

    def pause_s(self, one: Waiter) -> float:
        """Return the seconds until a waiter looks again; called once for each of its looks."""
        one.repeats = 0 if self._head > one.head else one.repeats + 1
        one.head = self._head
        if self.announced:
            return self.poll_s * SLOWER
        if not self._follows or one.repeats > REPEATS_MAX:
            return self.poll_s
        return self.poll_s * (REPEATED if one.repeats else BEFORE_BLOCK)

    def follow_pace(self, block_s: float | None) -> None:
        """Look as often as blocks come, in seconds, within bounds; None: as the settings say.

        A look that finds no new block is repeated sooner, a few times.
        """
        self._follows = block_s is not None and block_s <= self._slowest_s
        fastest = self._slowest_s if block_s is None else max(block_s, FASTEST_S)
        self.poll_s = min(self._slowest_s, fastest)

    def saw(self, head: int) -> None:
        """The head was looked at; one that moved unannounced speaks against announcements."""
        moved, self._head = head > self._head, max(head, self._head)
        if moved and self._by_clock and self.announced:
            self._missed += 1
            if self._missed >= MISSED_MAX:
                self._missed = 0
                self.silent.set()
