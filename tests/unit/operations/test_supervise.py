"""Test that failed workers restart after a bounded pause, and stop no other worker."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from florin_server.base.clock import TestClock
from florin_server.db.engine.query import StoreUnavailable
from florin_server.operations.process import WORKER_FAILED_US, WorkerFailures
from florin_server.operations.worker import StepFailed, TurnSteps, supervise

from tests.support.until import wait_until


def core() -> Any:
    return SimpleNamespace(clock=TestClock(1_000_000), worker_failures=WorkerFailures())


async def test_worker_that_fails_starts_again_after_a_bounded_pause(caplog):
    created, starts = core(), []

    async def work() -> None:
        starts.append(created.clock.now_us())
        raise ValueError("a settings secret is not shown")

    task = asyncio.create_task(supervise(created, "settle eip155:1", work))
    for n in range(1, 12):
        await wait_until(lambda n=n: len(starts) == n and created.clock.sleeper_count == 1)
        created.clock.advance(60)
    pauses = [(b - a) / 1_000_000 for a, b in pairwise(starts)]
    assert set(pauses) == {60.0}
    assert not task.done()
    (result,) = created.worker_failures.describe(created.clock.now_us())
    assert result.startswith("settle eip155:1 failed 11 times and is restarted: ValueError")
    # the log names the worker, but not its arguments
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert lines[0] == "settle eip155:1 failed and restarts in 1 s"
    assert lines[-1] == "settle eip155:1 failed and restarts in 60 s"
    task.cancel()


async def test_worker_that_works_again_is_reported_no_longer():
    created, ends = core(), [ValueError("once")]
    working = asyncio.Event()

    async def work() -> None:
        if ends:
            raise ends.pop()
        working.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(supervise(created, "expire", work))
    await wait_until(lambda: created.clock.sleeper_count == 1)
    assert len(created.worker_failures.describe(created.clock.now_us())) == 1
    created.clock.advance(1)
    await working.wait()
    created.clock.advance(WORKER_FAILED_US / 1_000_000)
    assert created.worker_failures.describe(created.clock.now_us()) == []
    task.cancel()


async def test_outage_of_the_store_is_waited_out_and_is_no_failure():
    created, tries = core(), []

    async def work() -> None:
        tries.append(1)
        raise StoreUnavailable("the disk is full")

    task = asyncio.create_task(supervise(created, "expire", work))
    await wait_until(lambda: created.clock.sleeper_count == 1)
    created.clock.advance(1)
    await wait_until(lambda: len(tries) == 2)
    assert created.worker_failures.by_worker == {}
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
    await wait_until(task.done)
    assert task.cancelled()


async def test_step_that_fails_keeps_no_other_step_from_its_turn():
    steps, done = TurnSteps("settle eip155:1"), []

    async def fails() -> None:
        raise KeyError("x")

    async def works() -> None:
        done.append(1)

    await steps.run("first", fails())
    await steps.run("second", works())
    assert done == [1]
    with pytest.raises(StepFailed, match="first: KeyError"):
        steps.raise_failures()


async def test_outage_ends_the_turn_at_once():
    async def waits() -> None:
        raise StoreUnavailable("no")

    with pytest.raises(StoreUnavailable):
        await TurnSteps("settle").run("first", waits())
