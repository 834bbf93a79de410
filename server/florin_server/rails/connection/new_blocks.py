"""Wait for new blocks: an announcement wakes at once, the clock always does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

ANNOUNCED_FACTOR = 10  # times the poll interval while announcements arrive
FASTEST_S = 0.2  # between two polls, even if a chain claims a faster pace
MISSED_MAX = 2  # blocks in a row that only polling found: announcements are missing
# When polls follow the pace of blocks, a poll is due shortly before the next block. A poll that
# finds no block is repeated soon, for about one block time, so that polls stay close to blocks.
EARLY_FACTOR = 0.75
REPEAT_FACTOR = 0.25
REPEATS_MAX = 4


@dataclass(slots=True)
class BlockWaiter:
    """A waiter: its event, the last head it knew, and how many of its polls found no new head."""

    wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    head: int = -1
    repeats: int = 0


class BlockNotifier:
    """Notify waiters, each by its name, that there may be a new block.

    `has_announcements` is true while announcements are expected; polling is slower then. `poll_s`
    is the number of seconds between two polls without announcements.
    """

    def __init__(self, poll_s: float, *, has_announcements: bool = False) -> None:
        self.has_announcements = has_announcements
        self.silence_event = asyncio.Event()  # set when announcements stopped arriving
        self.poll_s = self._slowest_s = poll_s
        self._has_announced = False
        self._follows = False
        self._waiters: dict[str, BlockWaiter] = {}
        self._head = 0
        self._woken_by_clock = False
        self._missed = 0

    def announce(self) -> None:
        """Notify the waiters that there may be a new block."""
        self._has_announced, self._woken_by_clock, self._missed = True, False, 0
        for waiter in self._waiters.values():
            waiter.wake_event.set()

    async def wait_for_block(self, waiter: str = "") -> None:
        """Return when there may be a new block since the last call, or when a poll is due.

        A new waiter has not seen any block yet.
        """
        this_waiter = self._waiters.get(waiter)
        if this_waiter is None:
            this_waiter = self._waiters[waiter] = BlockWaiter()
            if self._has_announced:
                this_waiter.wake_event.set()
        try:
            async with asyncio.timeout(self.get_pause_s(this_waiter)):
                await this_waiter.wake_event.wait()
        except TimeoutError:
            self._woken_by_clock = True
        this_waiter.wake_event.clear()

    def get_pause_s(self, waiter: BlockWaiter) -> float:
        """Return the seconds until a waiter polls again; call it once for each poll."""
        waiter.repeats = 0 if self._head > waiter.head else waiter.repeats + 1
        waiter.head = self._head
        if self.has_announcements:
            return self.poll_s * ANNOUNCED_FACTOR
        if not self._follows or waiter.repeats > REPEATS_MAX:
            return self.poll_s
        return self.poll_s * (REPEAT_FACTOR if waiter.repeats else EARLY_FACTOR)

    def follow_pace(self, block_s: float | None) -> None:
        """Poll at the pace of blocks, in seconds, within bounds; None: at the pace of the settings.

        A poll that finds no new block is repeated sooner, a few times.
        """
        self._follows = block_s is not None and block_s <= self._slowest_s
        fastest = self._slowest_s if block_s is None else max(block_s, FASTEST_S)
        self.poll_s = min(self._slowest_s, fastest)

    def record_head(self, head: int) -> None:
        """Record the head a poll read; an unannounced new head counts against announcements."""
        moved, self._head = head > self._head, max(head, self._head)
        if moved and self._woken_by_clock and self.has_announcements:
            self._missed += 1
            if self._missed >= MISSED_MAX:
                self._missed = 0
                self.silence_event.set()
