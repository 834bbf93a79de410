"""Starts the processes of a service, starts again what dies, and replaces one after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from florin_server.boot.processes.backoff import Backoff
from florin_server.boot.processes.child import Child
from florin_server.clock import Clock, first_of
from florin_server.logs import about_process

_log = logging.getLogger(__name__)

Spawn = Callable[[int, Sequence[str]], Awaitable[Child]]

# names of dead processes whose leases are told to be free; those of others lapse
_DEAD_MAX = 64


class DiedEarly(Exception):  # noqa: N818  (the process has told the reason)
    """A process never answered, and none like it will: nothing is started."""


class Phase(Enum):
    """What a supervisor is at."""

    UP = auto()
    RELOADING = auto()
    RELOADED = auto()
    ENDING = auto()


Tell = Callable[[Phase], object]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a process gets, in seconds: to answer, to end, and to leave its callers to others.

    A first start may bring a store to a new schema. One that works says so every second: after
    `silent_s` without a word it is taken to hang.
    """

    ready_s: float = 300.0
    silent_s: float = 30.0
    end_s: float = 30.0
    way_s: float = 60.0


class Supervisor:
    """`spawn` starts the process with a number, and tells it whose leases are free by now."""

    def __init__(
        self, spawn: Spawn, count: int, clock: Clock, patience: Patience | None = None
    ) -> None:
        self._spawn = spawn
        self._count = count
        self._clock = clock
        self._patience = patience or Patience()
        self._alive: set[Child] = set()
        self._posts: dict[int, Child] = {}  # who answers now, by number
        self._turns = [asyncio.Lock() for _ in range(count)]
        # how often the process with a number died and was started again
        self.restarts = [0] * count
        self._backoffs = [Backoff() for _ in range(count)]
        self._dead: deque[str] = deque(maxlen=_DEAD_MAX)
        self._asked = asyncio.Event()
        self._follows: set[asyncio.Task[None]] = set()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def children(self) -> list[Child]:
        """Those that answer, by number."""
        return [self._posts[number] for number in sorted(self._posts)]

    def reload(self) -> None:
        """Has every process replaced, from its settings on; asked for twice is done once more."""
        self._asked.set()

    async def run(self, tell: Tell) -> None:
        """Works until cancelled, and ends all processes then; tells what it does.

        DiedEarly if one of the first processes does not answer.
        """
        try:
            # alone: what is wrong is told once, and a store is migrated by one
            await self._first([0])
            await self._first(range(1, self._count))
            tell(Phase.UP)
            while True:
                await self._reload_asked()
                tell(Phase.RELOADING)
                await self._replace_all()
                tell(Phase.RELOADED)
        finally:
            tell(Phase.ENDING)
            for one in self._follows:
                one.cancel()
            await asyncio.gather(*self._follows, return_exceptions=True)
            await self._end(self._alive)

    async def _reload_asked(self) -> None:
        await first_of(self._asked.wait(), asyncio.wait([self._broken]))
        if self._broken.done():
            self._broken.result()
        self._asked.clear()

    async def _first(self, numbers: Iterable[int]) -> None:
        started = await asyncio.gather(*map(self._begin, numbers))
        if not all(started):
            raise DiedEarly

    async def _begin(self, number: int) -> bool:
        """Starts a process, and puts it in its place once it answers; False if it did not."""
        dead = list(self._dead)
        try:
            child = await self._spawn(number, dead)
        except OSError as error:
            _log.error(
                "process %d cannot be started: %s", number + 1, error, extra=about_process(number)
            )
            return False
        self._alive.add(child)
        if not await self._within(self._patience.ready_s, child.ready()):
            # it has told why, or is killed, which is told
            await self._end([child])
            return False
        for one in dead:
            with suppress(ValueError):
                self._dead.remove(one)
        self._posts[number] = child
        follow = asyncio.create_task(self._follow(number, child))
        self._follows.add(follow)
        follow.add_done_callback(self._followed)
        _log.info("process %d (%d) answers", number + 1, child.pid, extra=about_process(number))
        return True

    async def _follow(self, number: int, child: Child) -> None:
        """Starts another one when a process died that was not replaced."""
        began_us = self._clock.steady_us()
        status = await self._outlived(number, child)
        self._gone(child)
        if self._posts[number] is not child:
            return
        _log.error(
            "process %d (%d) %s", number + 1, child.pid, _how(status), extra=about_process(number)
        )
        async with self._turns[number]:
            # one that a reload was about to replace has its successor
            while self._posts[number] is child:
                lived_s = (self._clock.steady_us() - began_us) / 1_000_000
                await self._clock.sleep(self._backoffs[number].after(lived_s))
                began_us = self._clock.steady_us()
                self.restarts[number] += 1
                if not await self._begin(number):
                    _log.error(
                        "process %d did not start, and is tried again",
                        number + 1,
                        extra=about_process(number),
                    )

    async def _outlived(self, number: int, child: Child) -> int:
        """Its status once it has ended; one that says nothing any more is killed."""
        ended = asyncio.create_task(child.ended())
        try:
            while not ended.done():
                if not await self._within(self._patience.silent_s, child.heard()):
                    told = "process %d (%d) says nothing for %.0f s, and is killed"
                    _log.error(
                        told,
                        number + 1,
                        child.pid,
                        self._patience.silent_s,
                        extra=about_process(number),
                    )
                    child.kill()
                    await ended
            return ended.result()
        finally:
            ended.cancel()

    def _followed(self, follow: asyncio.Task[None]) -> None:
        self._follows.discard(follow)
        if not follow.cancelled() and (error := follow.exception()) and not self._broken.done():
            self._broken.set_exception(error)

    async def _replace_all(self) -> None:
        for number in range(self._count):
            async with self._turns[number]:
                before = self._posts[number]
                if not await self._begin(number):
                    told = "process %d did not start anew, and the reload ends: all go on as before"
                    _log.error(told, number + 1, extra=about_process(number))
                    return
            before.make_way()
            if not await self._within(self._patience.way_s, before.ended()):
                await self._end([before])
            self._gone(before)
        _log.info("all processes are new")

    def _gone(self, child: Child) -> None:
        if child in self._alive:
            self._alive.discard(child)
            self._dead.append(child.owner)

    async def _end(self, children: Iterable[Child]) -> None:
        """Ends processes in order, and those that do not end in time anyway."""
        await asyncio.gather(*(self._end_one(one) for one in list(children)))

    async def _end_one(self, child: Child) -> None:
        child.stop()
        if not await self._within(self._patience.end_s, child.ended()):
            _log.error("process (%d) did not end in time, and is killed", child.pid)
            child.kill()
            await child.ended()
        self._gone(child)

    async def _within(self, seconds: float, wait: Coroutine[Any, Any, bool | int | None]) -> bool:
        """False if what is waited for says so, or takes too long by the clock."""
        waiting = asyncio.create_task(wait)
        try:
            await first_of(asyncio.wait([waiting]), self._clock.sleep(seconds))
            return waiting.done() and waiting.result() is not False
        finally:
            waiting.cancel()


def _how(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
