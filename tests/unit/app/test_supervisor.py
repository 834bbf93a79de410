"""Test the supervisor of a service's processes, with scripted processes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from florin_server.app.processes.backoff import RestartBackoff
from florin_server.app.processes.child import SpawnedProcess
from florin_server.app.processes.child_config import ChildConfig
from florin_server.app.processes.supervisor import (
    ProcessSupervisor,
    RestartPolicy,
    StartupFailed,
    SupervisorPhase,
)
from florin_server.base.clock import SystemClock, TestClock

from tests.support.until import wait_until

PATIENCE = RestartPolicy(
    start_timeout_s=100, heartbeat_timeout_s=1000, stop_timeout_s=10, drain_timeout_s=20
)


class Fake:
    """A scripted process; it obeys at once unless it is deaf."""

    def __init__(self, pid: int, *, answers: bool = True, deaf: bool = False) -> None:
        self.pid = pid
        self.lease_owner = f"owner-{pid}"
        self.deaf = deaf
        self.orders: list[str] = []
        self.word = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.status: asyncio.Future[int] = loop.create_future()
        self.answer: asyncio.Future[bool] = loop.create_future()
        if answers:
            self.answer.set_result(True)

    async def wait_until_ready(self) -> bool:
        await asyncio.wait([self.answer, self.status], return_when=asyncio.FIRST_COMPLETED)
        return self.answer.done()

    async def wait_for_heartbeat(self) -> None:
        word = asyncio.ensure_future(self.word.wait())
        try:
            await asyncio.wait([word, self.status], return_when=asyncio.FIRST_COMPLETED)
        finally:
            word.cancel()
            self.word.clear()

    async def wait_until_ended(self) -> int:
        return await asyncio.shield(self.status)

    def die(self, status: int) -> None:
        if not self.status.done():
            self.status.set_result(status)

    def drain(self) -> None:
        self._receive("make way")

    def stop(self) -> None:
        self._receive("stop")

    def kill(self) -> None:
        self.orders.append("kill")
        self.die(-9)

    def _receive(self, order: str) -> None:
        self.orders.append(order)
        if not self.deaf:
            self.die(0)


class Clock(TestClock):
    """A clock that separately counts sleepers that wait for a process's message."""

    listeners = 0

    async def sleep(self, seconds: float) -> None:
        listens = seconds == PATIENCE.heartbeat_timeout_s
        self.listeners += listens
        try:
            await super().sleep(seconds)
        finally:
            self.listeners -= listens

    @property
    def pauses(self) -> int:
        return self.sleeper_count - self.listeners


class World:
    """A factory that starts fakes as planned, and records them all."""

    def __init__(self, count: int) -> None:
        self.clock = Clock(0)
        self.processes: list[Fake] = []
        self.numbers: list[int] = []
        self.dead: list[list[str]] = []
        self.plans: list[dict[str, bool]] = []
        self.phases: list[SupervisorPhase] = []
        self.supervisor = ProcessSupervisor(self._spawn, count, self.clock, PATIENCE)

    async def _spawn(self, number, dead):
        plan = self.plans.pop(0) if self.plans else {}
        if plan.get("impossible"):
            raise OSError("no memory")
        self.numbers.append(number)
        self.dead.append(list(dead))
        self.processes.append(Fake(len(self.processes), **plan))
        return self.processes[-1]

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.supervisor.run(self.phases.append))
        try:
            await wait_until(lambda: SupervisorPhase.UP in self.phases)
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def passes(self, seconds: float) -> None:
        """Advance the time after a sleeper waits for it."""
        await wait_until(lambda: self.clock.pauses > 0)
        self.clock.advance(seconds)


async def test_first_process_starts_alone_before_the_rest():
    world = World(3)
    world.plans = [{"answers": False}]
    task = asyncio.create_task(world.supervisor.run(world.phases.append))
    await wait_until(lambda: len(world.processes), 1)
    assert world.phases == []
    world.processes[0].answer.set_result(True)
    await wait_until(lambda: world.phases, [SupervisorPhase.UP])
    assert sorted(world.numbers) == [0, 1, 2]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [fake.orders for fake in world.processes] == [["stop"]] * 3
    assert world.phases == [SupervisorPhase.UP, SupervisorPhase.STOPPING]


@pytest.mark.parametrize("plans", [[{"answers": False}], [{}, {"answers": False}]])
async def test_process_that_dies_before_it_answers_fails_the_start(plans):
    world = World(2)
    world.plans = plans
    task = asyncio.create_task(world.supervisor.run(world.phases.append))
    await wait_until(lambda: len(world.processes), len(plans))
    world.processes[-1].die(1)
    with pytest.raises(StartupFailed):
        await task
    assert all(fake.status.done() for fake in world.processes)
    assert SupervisorPhase.UP not in world.phases


async def test_process_silent_during_startup_fails_the_start():
    world = World(1)
    world.plans = [{"answers": False}]
    task = asyncio.create_task(world.supervisor.run(world.phases.append))
    await world.passes(100)
    with pytest.raises(StartupFailed):
        await task
    assert world.processes[0].orders == ["stop"]


async def test_dead_process_is_restarted_with_increasing_delay(caplog):
    caplog.set_level(logging.INFO, "florin_server")
    async with World(2).running() as world:
        pauses = [1, 2, 4, 8, 16, 30, 30]
        for number, pause_s in enumerate(pauses):
            world.supervisor.list_children[0].die(-11)
            await world.passes(pause_s - 0.001)
            assert len(world.processes) == 2 + number
            await world.passes(0.001)
            await wait_until(lambda n=number: len(world.processes), 3 + number)
            await wait_until(lambda: world.supervisor.list_children[0] is world.processes[-1])
        assert world.supervisor.list_children[1] is world.processes[1]
        assert world.supervisor.restart_counts == [len(pauses), 0]
        # the next process gets the owners whose leases are free
        assert world.dead[2:] == [["owner-0"], *([f"owner-{n}"] for n in range(2, 8))]
    assert "process 1 (0) was ended by signal 11" in caplog.text


async def test_failed_restart_is_retried_until_it_succeeds(caplog):
    async with World(1).running() as world:
        world.plans = [{"impossible": True}, {"answers": False}]
        world.processes[0].die(3)
        await world.passes(1)
        await world.passes(2)
        await wait_until(lambda: len(world.processes), 2)
        world.processes[1].die(1)
        await wait_until(
            lambda: caplog.text.count("process 1 did not start; Florin tries again"), 2
        )
        await world.passes(4)
        await wait_until(lambda: len(world.processes), 3)
        await wait_until(lambda: world.supervisor.list_children == world.processes[2:])
        # the owners of all processes that died since one last answered
        assert world.dead[-1] == ["owner-0", "owner-1"]
    assert "process 1 cannot be started: no memory" in caplog.text


async def test_hanging_process_is_killed_and_restarted(caplog):
    async with World(2).running() as world:
        works, hangs = world.processes
        for _ in range(3):
            await wait_until(lambda: world.clock.listeners, 2)
            world.clock.advance(PATIENCE.heartbeat_timeout_s - 1)
            works.word.set()
            hangs.word.set()
            await wait_until(lambda: not (works.word.is_set() or hangs.word.is_set()))
        await wait_until(lambda: world.clock.listeners, 2)
        world.clock.advance(PATIENCE.heartbeat_timeout_s - 1)
        works.word.set()
        await wait_until(lambda: not works.word.is_set())
        await wait_until(lambda: world.clock.listeners, 2)
        world.clock.advance(1)
        await wait_until(lambda: hangs.orders, ["kill"])
        assert works.orders == []
        await world.passes(1)
        await wait_until(lambda: world.supervisor.list_children == [works, *world.processes[2:]])
        assert len(world.processes) == 3
    assert "process 2 (1) did not respond for 1000 s and is killed" in caplog.text


async def test_a_process_that_is_stopped_hangs(caplog):
    """Only a real process and the machine's time show that silence is noticed."""
    works = (
        "import sys, time\nsys.stdin.readline()\nprint('ready', flush=True)\n"
        "while True: time.sleep(0.05); print('alive', flush=True)"
    )
    with socket.socket() as listening:

        async def spawn(number, dead):
            order = ChildConfig({}, True, "", listening.fileno(), None, f"owner-{number}", dead)
            return await SpawnedProcess.spawn((sys.executable, "-c", works), order)

        patience = RestartPolicy(heartbeat_timeout_s=2)
        supervisor = ProcessSupervisor(spawn, 1, SystemClock(), patience)
        phases: list[SupervisorPhase] = []
        task = asyncio.create_task(supervisor.run(phases.append))
        await wait_until(lambda: SupervisorPhase.UP in phases)
        (first,) = supervisor.list_children
        os.kill(first.pid, signal.SIGSTOP)
        assert await first.wait_until_ended() == -signal.SIGKILL
        await wait_until(lambda: supervisor.list_children != [first])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert "did not respond for 2 s and is killed" in caplog.text


async def test_reload_replaces_processes_in_sequence():
    async with World(2).running() as world:
        old = list(world.processes)
        world.plans = [{"answers": False}]
        world.supervisor.request_reload()
        await wait_until(lambda: len(world.processes), 3)
        # until the new process answers, the old one keeps working
        assert [item.orders for item in old] == [[], []]
        world.processes[2].answer.set_result(True)
        await wait_until(
            lambda: world.phases,
            [SupervisorPhase.UP, SupervisorPhase.RELOADING, SupervisorPhase.RELOADED],
        )
        assert [item.orders for item in old] == [["make way"]] * 2
        assert world.supervisor.list_children == world.processes[2:]
        assert world.numbers == [0, 1, 0, 1]
        # the old processes released their leases, and are not restarted
        assert world.clock.pauses == 0


async def test_a_reload_that_fails_leaves_all_as_they_are(caplog):
    async with World(2).running() as world:
        old = list(world.processes)
        world.plans = [{"answers": False}]
        world.supervisor.request_reload()
        await wait_until(lambda: len(world.processes), 3)
        world.processes[2].die(2)
        await wait_until(lambda: SupervisorPhase.RELOADED in world.phases)
        assert world.supervisor.list_children == old
        assert [item.orders for item in old] == [[], []]
        # and the next process can succeed
        world.supervisor.request_reload()
        await wait_until(lambda: world.supervisor.list_children == world.processes[3:])
    assert "process 1 did not restart" in caplog.text


async def test_process_that_does_not_drain_is_stopped_and_then_killed(caplog):
    world = World(1)
    world.plans = [{"deaf": True}]
    async with world.running():
        world.supervisor.request_reload()
        await wait_until(lambda: world.processes[0].orders, ["make way"])
        await world.passes(20)
        await wait_until(lambda: world.processes[0].orders, ["make way", "stop"])
        await world.passes(10)
        await wait_until(lambda: world.processes[0].orders, ["make way", "stop", "kill"])
        await wait_until(lambda: SupervisorPhase.RELOADED in world.phases)
    assert "process (0) did not end in time and is killed" in caplog.text


async def test_process_that_dies_during_a_reload_is_replaced_once():
    async with World(1).running() as world:
        world.plans = [{"answers": False}]
        world.supervisor.request_reload()
        await wait_until(lambda: len(world.processes), 2)
        world.processes[0].die(-9)
        await wait_until(world.processes[0].status.done)
        world.processes[1].answer.set_result(True)
        await wait_until(lambda: SupervisorPhase.RELOADED in world.phases)
        assert world.supervisor.list_children == [world.processes[1]]
        assert len(world.processes) == 2


async def test_repeated_reload_requests_cause_a_single_further_reload():
    async with World(1).running() as world:
        world.plans = [{"answers": False}]
        world.supervisor.request_reload()
        await wait_until(lambda: len(world.processes), 2)
        for _ in range(100):
            world.supervisor.request_reload()
        world.processes[1].answer.set_result(True)
        await wait_until(lambda: world.phases.count(SupervisorPhase.RELOADED), 2)
        assert len(world.processes) == 3


def test_restart_delay_resets_after_a_minute_of_life():
    backoff = RestartBackoff()
    assert [backoff.get_delay(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.get_delay(59.9) == 30
    assert backoff.get_delay(60) == 1
    assert backoff.get_delay(0) == 2
