"""Who looks after the processes of a service: with processes that do what a test says."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from florin_server.boot.processes.backoff import Backoff
from florin_server.boot.processes.child import Spawned
from florin_server.boot.processes.order import Order
from florin_server.boot.processes.supervisor import DiedEarly, Patience, Phase, Supervisor
from florin_server.clock import SystemClock, TestClock

from tests.support.until import until

PATIENCE = Patience(ready_s=100, silent_s=1000, end_s=10, way_s=20)


class Fake:
    """A process; what it is told, it does at once unless it is deaf."""

    def __init__(self, pid: int, *, answers: bool = True, deaf: bool = False) -> None:
        self.pid = pid
        self.owner = f"owner-{pid}"
        self.deaf = deaf
        self.told: list[str] = []
        self.word = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.status: asyncio.Future[int] = loop.create_future()
        self.answer: asyncio.Future[bool] = loop.create_future()
        if answers:
            self.answer.set_result(True)

    async def ready(self) -> bool:
        await asyncio.wait([self.answer, self.status], return_when=asyncio.FIRST_COMPLETED)
        return self.answer.done()

    async def heard(self) -> None:
        word = asyncio.ensure_future(self.word.wait())
        try:
            await asyncio.wait([word, self.status], return_when=asyncio.FIRST_COMPLETED)
        finally:
            word.cancel()
            self.word.clear()

    async def ended(self) -> int:
        return await asyncio.shield(self.status)

    def die(self, status: int) -> None:
        if not self.status.done():
            self.status.set_result(status)

    def make_way(self) -> None:
        self._told("make way")

    def stop(self) -> None:
        self._told("stop")

    def kill(self) -> None:
        self.told.append("kill")
        self.die(-9)

    def _told(self, what: str) -> None:
        self.told.append(what)
        if not self.deaf:
            self.die(0)


class Clock(TestClock):
    """Counts those apart that wait for a word of a process."""

    listeners = 0

    async def sleep(self, seconds: float) -> None:
        listens = seconds == PATIENCE.silent_s
        self.listeners += listens
        try:
            await super().sleep(seconds)
        finally:
            self.listeners -= listens

    @property
    def pauses(self) -> int:
        return self.sleepers - self.listeners


class World:
    """Starts fakes as the test has planned them, and remembers all."""

    def __init__(self, count: int) -> None:
        self.clock = Clock(0)
        self.made: list[Fake] = []
        self.numbers: list[int] = []
        self.dead: list[list[str]] = []
        self.plans: list[dict[str, bool]] = []
        self.phases: list[Phase] = []
        self.supervisor = Supervisor(self._spawn, count, self.clock, PATIENCE)

    async def _spawn(self, number, dead):
        plan = self.plans.pop(0) if self.plans else {}
        if plan.get("impossible"):
            raise OSError("no memory")
        self.numbers.append(number)
        self.dead.append(list(dead))
        self.made.append(Fake(len(self.made), **plan))
        return self.made[-1]

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.supervisor.run(self.phases.append))
        try:
            await until(lambda: Phase.UP in self.phases)
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def passes(self, seconds: float) -> None:
        """Time, once somebody waits for it."""
        await until(lambda: self.clock.pauses > 0)
        self.clock.advance(seconds)


async def test_all_are_started_the_first_one_alone():
    world = World(3)
    world.plans = [{"answers": False}]
    task = asyncio.create_task(world.supervisor.run(world.phases.append))
    await until(lambda: len(world.made), 1)
    assert world.phases == []
    world.made[0].answer.set_result(True)
    await until(lambda: world.phases, [Phase.UP])
    assert sorted(world.numbers) == [0, 1, 2]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.told for one in world.made] == [["stop"]] * 3
    assert world.phases == [Phase.UP, Phase.ENDING]


@pytest.mark.parametrize("plans", [[{"answers": False}], [{}, {"answers": False}]])
async def test_one_that_dies_before_it_ever_answered_ends_all(plans):
    world = World(2)
    world.plans = plans
    task = asyncio.create_task(world.supervisor.run(world.phases.append))
    await until(lambda: len(world.made), len(plans))
    world.made[-1].die(1)
    with pytest.raises(DiedEarly):
        await task
    assert all(one.status.done() for one in world.made)
    assert Phase.UP not in world.phases


async def test_one_that_says_nothing_for_too_long_ends_all():
    world = World(1)
    world.plans = [{"answers": False}]
    task = asyncio.create_task(world.supervisor.run(world.phases.append))
    await world.passes(100)
    with pytest.raises(DiedEarly):
        await task
    assert world.made[0].told == ["stop"]


async def test_one_that_dies_is_started_again_after_ever_longer_pauses(caplog):
    caplog.set_level(logging.INFO, "florin_server")
    async with World(2).running() as world:
        pauses = [1, 2, 4, 8, 16, 30, 30]
        for number, pause_s in enumerate(pauses):
            world.supervisor.children[0].die(-11)
            await world.passes(pause_s - 0.001)
            assert len(world.made) == 2 + number
            await world.passes(0.001)
            await until(lambda n=number: len(world.made), 3 + number)
            await until(lambda: world.supervisor.children[0] is world.made[-1])
        assert world.supervisor.children[1] is world.made[1]
        assert world.supervisor.restarts == [len(pauses), 0]
        # the next one is told whose leases are free
        assert world.dead[2:] == [["owner-0"], *([f"owner-{n}"] for n in range(2, 8))]
    assert "process 1 (0) was ended by signal 11" in caplog.text


async def test_one_that_cannot_be_started_again_is_tried_until_it_can(caplog):
    async with World(1).running() as world:
        world.plans = [{"impossible": True}, {"answers": False}]
        world.made[0].die(3)
        await world.passes(1)
        await world.passes(2)
        await until(lambda: len(world.made), 2)
        world.made[1].die(1)
        await until(lambda: caplog.text.count("process 1 did not start, and is tried again"), 2)
        await world.passes(4)
        await until(lambda: len(world.made), 3)
        await until(lambda: world.supervisor.children == world.made[2:])
        # those of all that died since one answered
        assert world.dead[-1] == ["owner-0", "owner-1"]
    assert "process 1 cannot be started: no memory" in caplog.text


async def test_one_that_hangs_is_killed_and_started_again(caplog):
    async with World(2).running() as world:
        works, hangs = world.made
        for _ in range(3):
            await until(lambda: world.clock.listeners, 2)
            world.clock.advance(PATIENCE.silent_s - 1)
            works.word.set()
            hangs.word.set()
            await until(lambda: not (works.word.is_set() or hangs.word.is_set()))
        await until(lambda: world.clock.listeners, 2)
        world.clock.advance(PATIENCE.silent_s - 1)
        works.word.set()
        await until(lambda: not works.word.is_set())
        await until(lambda: world.clock.listeners, 2)
        world.clock.advance(1)
        await until(lambda: hangs.told, ["kill"])
        assert works.told == []
        await world.passes(1)
        await until(lambda: world.supervisor.children == [works, *world.made[2:]])
        assert len(world.made) == 3
    assert "process 2 (1) says nothing for 1000 s, and is killed" in caplog.text


async def test_a_process_that_is_stopped_hangs(caplog):
    """A real one, and the machine's time: nothing else shows that silence is noticed."""
    works = (
        "import sys, time\nsys.stdin.readline()\nprint('ready', flush=True)\n"
        "while True: time.sleep(0.05); print('alive', flush=True)"
    )
    with socket.socket() as listening:

        async def spawn(number, dead):
            order = Order({}, True, "", listening.fileno(), None, f"owner-{number}", dead)
            return await Spawned.of((sys.executable, "-c", works), order)

        patience = Patience(silent_s=2)
        supervisor = Supervisor(spawn, 1, SystemClock(), patience)
        phases: list[Phase] = []
        task = asyncio.create_task(supervisor.run(phases.append))
        await until(lambda: Phase.UP in phases)
        (first,) = supervisor.children
        os.kill(first.pid, signal.SIGSTOP)
        assert await first.ended() == -signal.SIGKILL
        await until(lambda: supervisor.children != [first])
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert "says nothing for 2 s, and is killed" in caplog.text


async def test_a_reload_replaces_one_after_the_other():
    async with World(2).running() as world:
        old = list(world.made)
        world.plans = [{"answers": False}]
        world.supervisor.reload()
        await until(lambda: len(world.made), 3)
        # as long as the new one does not answer the old one does
        assert [one.told for one in old] == [[], []]
        world.made[2].answer.set_result(True)
        await until(lambda: world.phases, [Phase.UP, Phase.RELOADING, Phase.RELOADED])
        assert [one.told for one in old] == [["make way"]] * 2
        assert world.supervisor.children == world.made[2:]
        assert world.numbers == [0, 1, 0, 1]
        # those that left gave their leases back, and nobody starts them again
        assert world.clock.pauses == 0


async def test_a_reload_that_fails_leaves_all_as_they_are(caplog):
    async with World(2).running() as world:
        old = list(world.made)
        world.plans = [{"answers": False}]
        world.supervisor.reload()
        await until(lambda: len(world.made), 3)
        world.made[2].die(2)
        await until(lambda: Phase.RELOADED in world.phases)
        assert world.supervisor.children == old
        assert [one.told for one in old] == [[], []]
        # and the next one may do better
        world.supervisor.reload()
        await until(lambda: world.supervisor.children == world.made[3:])
    assert "process 1 did not start anew" in caplog.text


async def test_one_that_does_not_make_way_is_ended(caplog):
    world = World(1)
    world.plans = [{"deaf": True}]
    async with world.running():
        world.supervisor.reload()
        await until(lambda: world.made[0].told, ["make way"])
        await world.passes(20)
        await until(lambda: world.made[0].told, ["make way", "stop"])
        await world.passes(10)
        await until(lambda: world.made[0].told, ["make way", "stop", "kill"])
        await until(lambda: Phase.RELOADED in world.phases)
    assert "process (0) did not end in time, and is killed" in caplog.text


async def test_one_that_dies_while_it_is_to_be_replaced_is_replaced_once():
    async with World(1).running() as world:
        world.plans = [{"answers": False}]
        world.supervisor.reload()
        await until(lambda: len(world.made), 2)
        world.made[0].die(-9)
        await until(world.made[0].status.done)
        world.made[1].answer.set_result(True)
        await until(lambda: Phase.RELOADED in world.phases)
        assert world.supervisor.children == [world.made[1]]
        assert len(world.made) == 2


async def test_many_wishes_to_reload_are_one_more():
    async with World(1).running() as world:
        world.plans = [{"answers": False}]
        world.supervisor.reload()
        await until(lambda: len(world.made), 2)
        for _ in range(100):
            world.supervisor.reload()
        world.made[1].answer.set_result(True)
        await until(lambda: world.phases.count(Phase.RELOADED), 2)
        assert len(world.made) == 3


def test_who_lived_for_a_minute_begins_anew():
    backoff = Backoff()
    assert [backoff.after(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.after(59.9) == 30
    assert backoff.after(60) == 1
    assert backoff.after(0) == 2
