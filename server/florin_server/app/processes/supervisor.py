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

from florin_server.app.processes.backoff import RestartBackoff
from florin_server.app.processes.child import ChildProcess
from florin_server.base.clock import Clock, wait_for_first
from florin_server.base.logs import build_process_extra

_log = logging.getLogger(__name__)

ChildSpawner = Callable[[int, Sequence[str]], Awaitable[ChildProcess]]

# names of dead processes whose leases are reported as free; those of others lapse
_DEAD_MAX = 64


class StartupFailed(Exception):  # noqa: N818  (the process has reported the reason)
    """A process never answered, and none like it will: nothing is started."""


class SupervisorPhase(Enum):
    """The phase of a supervisor."""

    UP = auto()
    RELOADING = auto()
    RELOADED = auto()
    STOPPING = auto()


PhaseListener = Callable[[SupervisorPhase], object]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The time of a process, in seconds: to answer, to end, and to leave its callers to others.

    A first start can migrate a store to a new schema. A working process says so every second: after
    `heartbeat_timeout_s` without a message it counts as hung.
    """

    start_timeout_s: float = 300.0
    heartbeat_timeout_s: float = 30.0
    stop_timeout_s: float = 30.0
    drain_timeout_s: float = 60.0


class ProcessSupervisor:
    """Supervises processes: `spawn` starts one by number, with the names of free leases."""

    def __init__(
        self, spawn: ChildSpawner, count: int, clock: Clock, policy: RestartPolicy | None = None
    ) -> None:
        self._spawn = spawn
        self._count = count
        self._clock = clock
        self._policy = policy or RestartPolicy()
        self._alive: set[ChildProcess] = set()
        self._children: dict[int, ChildProcess] = {}  # the processes that answer now, by number
        self._locks = [asyncio.Lock() for _ in range(count)]
        # how often the process with a number died and was restarted
        self.restart_counts = [0] * count
        self._backoffs = [RestartBackoff() for _ in range(count)]
        self._dead_owners: deque[str] = deque(maxlen=_DEAD_MAX)
        self._reload_event = asyncio.Event()
        self._follow_tasks: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def list_children(self) -> list[ChildProcess]:
        """Return the processes that answer, by number."""
        return [self._children[number] for number in sorted(self._children)]

    def request_reload(self) -> None:
        """Replace every process, beginning with new settings.

        A second request is done once more.
        """
        self._reload_event.set()

    async def run(self, on_phase: PhaseListener) -> None:
        """Run until canceled, and end all processes then; log each step.

        StartupFailed if one of the first processes does not answer.
        """
        try:
            # alone: faults are reported once, and one process migrates the store
            await self._start_first([0])
            await self._start_first(range(1, self._count))
            on_phase(SupervisorPhase.UP)
            while True:
                await self._run_reloads()
                on_phase(SupervisorPhase.RELOADING)
                await self._replace_all()
                on_phase(SupervisorPhase.RELOADED)
        finally:
            on_phase(SupervisorPhase.STOPPING)
            for task in self._follow_tasks:
                task.cancel()
            await asyncio.gather(*self._follow_tasks, return_exceptions=True)
            await self._stop_children(self._alive)

    async def _run_reloads(self) -> None:
        await wait_for_first(self._reload_event.wait(), asyncio.wait([self._failure]))
        if self._failure.done():
            self._failure.result()
        self._reload_event.clear()

    async def _start_first(self, numbers: Iterable[int]) -> None:
        started = await asyncio.gather(*map(self._start_child, numbers))
        if not all(started):
            raise StartupFailed

    async def _start_child(self, number: int) -> bool:
        """Start a process, and register it once it answers; return False if it did not."""
        dead = list(self._dead_owners)
        try:
            child = await self._spawn(number, dead)
        except OSError as error:
            _log.error(
                "process %d cannot be started: %s",
                number + 1,
                error,
                extra=build_process_extra(number),
            )
            return False
        self._alive.add(child)
        if not await self._run_in_time(self._policy.start_timeout_s, child.wait_until_ready()):
            # it has reported why, or is killed, which is logged
            await self._stop_children([child])
            return False
        for owner in dead:
            with suppress(ValueError):
                self._dead_owners.remove(owner)
        self._children[number] = child
        follow = asyncio.create_task(self._restart_when_dead(number, child))
        self._follow_tasks.add(follow)
        follow.add_done_callback(self._on_follow_done)
        _log.info(
            "process %d (%d) answers", number + 1, child.pid, extra=build_process_extra(number)
        )
        return True

    async def _restart_when_dead(self, number: int, child: ChildProcess) -> None:
        """Start another process when one died that was not replaced."""
        began_us = self._clock.steady_us()
        status = await self._wait_for_end(number, child)
        self._record_dead(child)
        if self._children[number] is not child:
            return
        _log.error(
            "process %d (%d) %s",
            number + 1,
            child.pid,
            _describe_status(status),
            extra=build_process_extra(number),
        )
        async with self._locks[number]:
            # a process that a reload was about to replace has its successor
            while self._children[number] is child:
                lived_s = (self._clock.steady_us() - began_us) / 1_000_000
                await self._clock.sleep(self._backoffs[number].get_delay(lived_s))
                began_us = self._clock.steady_us()
                self.restart_counts[number] += 1
                if not await self._start_child(number):
                    _log.error(
                        "process %d did not start; Florin tries again",
                        number + 1,
                        extra=build_process_extra(number),
                    )

    async def _wait_for_end(self, number: int, child: ChildProcess) -> int:
        """Return its status once it has ended; a silent process is killed."""
        ended = asyncio.create_task(child.wait_until_ended())
        try:
            while not ended.done():
                if not await self._run_in_time(
                    self._policy.heartbeat_timeout_s, child.wait_for_heartbeat()
                ):
                    message = "process %d (%d) did not respond for %.0f s and is killed"
                    _log.error(
                        message,
                        number + 1,
                        child.pid,
                        self._policy.heartbeat_timeout_s,
                        extra=build_process_extra(number),
                    )
                    child.kill()
                    await ended
            return ended.result()
        finally:
            ended.cancel()

    def _on_follow_done(self, follow: asyncio.Task[None]) -> None:
        self._follow_tasks.discard(follow)
        if not follow.cancelled() and (error := follow.exception()) and not self._failure.done():
            self._failure.set_exception(error)

    async def _replace_all(self) -> None:
        for number in range(self._count):
            async with self._locks[number]:
                before = self._children[number]
                if not await self._start_child(number):
                    message = (
                        "process %d did not restart: the reload stops, and all processes "
                        "continue as before"
                    )
                    _log.error(message, number + 1, extra=build_process_extra(number))
                    return
            before.drain()
            if not await self._run_in_time(self._policy.drain_timeout_s, before.wait_until_ended()):
                await self._stop_children([before])
            self._record_dead(before)
        _log.info("the reload is complete: all processes were replaced")

    def _record_dead(self, child: ChildProcess) -> None:
        if child in self._alive:
            self._alive.discard(child)
            self._dead_owners.append(child.lease_owner)

    async def _stop_children(self, children: Iterable[ChildProcess]) -> None:
        """End processes in order, and those that do not end in time anyway."""
        await asyncio.gather(*(self._stop_child(child) for child in list(children)))

    async def _stop_child(self, child: ChildProcess) -> None:
        child.stop()
        if not await self._run_in_time(self._policy.stop_timeout_s, child.wait_until_ended()):
            _log.error("process (%d) did not end in time and is killed", child.pid)
            child.kill()
            await child.wait_until_ended()
        self._record_dead(child)

    async def _run_in_time(
        self, seconds: float, wait: Coroutine[Any, Any, bool | int | None]
    ) -> bool:
        """Return False if the awaited condition says so, or takes too long by the clock."""
        waiting = asyncio.create_task(wait)
        try:
            await wait_for_first(asyncio.wait([waiting]), self._clock.sleep(seconds))
            return waiting.done() and waiting.result() is not False
        finally:
            waiting.cancel()


def _describe_status(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
