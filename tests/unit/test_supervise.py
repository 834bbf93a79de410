"""Workers that end unexpectedly start again, after a bounded pause, and end nothing else."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from florin_server.clock import TestClock
from florin_server.flows.app import WORKER_FAILED_US, WorkerFailures
from florin_server.store.engine.query import StoreUnavailable
from florin_server.workers.supervise import StepFailed, Steps, supervise

from tests.support.until import until


def core() -> Any:
    return SimpleNamespace(clock=TestClock(1_000_000), failures=WorkerFailures())


async def test_worker_that_fails_starts_again_after_a_bounded_pause(caplog):
    made, starts = core(), []

    async def work() -> None:
        starts.append(made.clock.now_us())
        raise ValueError("a settings secret is not shown")

    task = asyncio.create_task(supervise(made, "settle eip155:1", work))
    for n in range(1, 12):
        await until(lambda n=n: len(starts) == n and made.clock.sleepers == 1)
        made.clock.advance(60)
    pauses = [(b - a) / 1_000_000 for a, b in pairwise(starts)]
    assert set(pauses) == {60.0}
    assert not task.done()
    (told,) = made.failures.describe(made.clock.now_us())
    assert told.startswith("settle eip155:1 failed 11 times, and is started again: ValueError")
    # the log names the worker, and not what it was made of
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert lines[0] == "settle eip155:1 failed and is started again in 1 s"
    assert lines[-1] == "settle eip155:1 failed and is started again in 60 s"
    task.cancel()


async def test_worker_that_works_again_is_reported_no_longer():
    made, ends = core(), [ValueError("once")]
    working = asyncio.Event()

    async def work() -> None:
        if ends:
            raise ends.pop()
        working.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(supervise(made, "expire", work))
    await until(lambda: made.clock.sleepers == 1)
    assert len(made.failures.describe(made.clock.now_us())) == 1
    made.clock.advance(1)
    await working.wait()
    made.clock.advance(WORKER_FAILED_US / 1_000_000)
    assert made.failures.describe(made.clock.now_us()) == []
    task.cancel()


async def test_outage_of_the_store_is_waited_out_and_is_no_failure():
    made, tries = core(), []

    async def work() -> None:
        tries.append(1)
        raise StoreUnavailable("the disk is full")

    task = asyncio.create_task(supervise(made, "expire", work))
    await until(lambda: made.clock.sleepers == 1)
    made.clock.advance(1)
    await until(lambda: len(tries) == 2)
    assert made.failures.by_worker == {}
    task.cancel()


@pytest.mark.parametrize("error", [ValueError("no"), StoreUnavailable("no")])
async def test_worker_whose_cleanup_fails_ends_when_it_is_cancelled(error):
    started = asyncio.Event()

    async def work() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            raise error

    task = asyncio.create_task(supervise(core(), "deliver_webhooks", work))
    await started.wait()
    task.cancel()
    await until(task.done)
    assert task.cancelled()


async def test_step_that_fails_keeps_no_other_step_from_its_turn():
    steps, done = Steps("settle eip155:1"), []

    async def fails() -> None:
        raise KeyError("x")

    async def works() -> None:
        done.append(1)

    await steps.run("first", fails())
    await steps.run("second", works())
    assert done == [1]
    with pytest.raises(StepFailed, match="first: KeyError"):
        steps.end()


async def test_outage_ends_the_turn_at_once():
    async def waits() -> None:
        raise StoreUnavailable("no")

    with pytest.raises(StoreUnavailable):
        await Steps("settle").run("first", waits())
