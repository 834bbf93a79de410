"""Waiting for new blocks: announcements wake at once, the clock always does."""

from __future__ import annotations

import asyncio

SLOWER = 10  # times the pace of polling while announcements come
MISSED_MAX = 2  # blocks in a row that only polling found: the announcements are not coming


class News:
    """Tells waiters, each by its name, that there may be a new block.

    `announced` is true while announcements are expected; polling is slower then.
    """

    def __init__(self, poll_s: float, *, announced: bool = False) -> None:
        self.announced = announced
        self.silent = asyncio.Event()  # the announcements have not been coming
        self._poll_s = poll_s
        self._any = False
        self._there: dict[str, asyncio.Event] = {}  # by waiter
        self._head = 0
        self._by_clock = False
        self._missed = 0

    def announce(self) -> None:
        """There may be a new block."""
        self._any, self._by_clock, self._missed = True, False, 0
        for one in self._there.values():
            one.set()

    async def wait(self, waiter: str = "") -> None:
        """Returns when there may be a new block since last time, or it is time to look.

        One who was never here before has not heard of any.
        """
        there = self._there.get(waiter)
        if there is None:
            there = self._there[waiter] = asyncio.Event()
            if self._any:
                there.set()
        try:
            async with asyncio.timeout(self._poll_s * (SLOWER if self.announced else 1)):
                await there.wait()
        except TimeoutError:
            self._by_clock = True
        there.clear()

    def saw(self, head: int) -> None:
        """The head was looked at; one that moved unannounced speaks against announcements."""
        moved, self._head = head > self._head, max(head, self._head)
        if moved and self._by_clock and self.announced:
            self._missed += 1
            if self._missed >= MISSED_MAX:
                self._missed = 0
                self.silent.set()
