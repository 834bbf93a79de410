"""Test idempotency keys without a stored answer across processes.

Of two different requests under one key, one runs. Equal requests run one after the other.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from florin_server.api.server.idempotency import IdempotencyLocks
from florin_server.app.app import build_app, build_core
from florin_server.base.clock import TestClock
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.accounts.caller import Caller, IdempotencyKey
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.idempotency.store import key_leases as key_turns
from florin_server.idempotency.store.responses import IdempotencyClaim
from florin_server.limits import store as sharing
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from florin_server.settings import Settings

from tests.support import postgres
from tests.support.store_factories import (
    ENGINES,
    NOW_US,
    execute_beside,
    make_payment,
    open_engine_store,
)
from tests.support.until import wait_until

WALLET = Caller(live=False, credential="app_1/client", network="192.0.2.1")
SHARED = [engine for engine in ENGINES if engine != postgres.SQLITE]

pytestmark = pytest.mark.parametrize("engine", SHARED)


def key(body: bytes = b"a", name: str = "key") -> IdempotencyKey:
    return IdempotencyKey("guard/app_1/test", name, body * 32)


class Server:
    """A process; `fault` makes its store fail before a commit."""

    def __init__(self) -> None:
        self.clock = TestClock(NOW_US)
        self.broken = False

    def fault(self, step: str) -> None:
        if self.broken and step == "commit":
            raise StoreUnavailable("it was pulled out")

    async def start(self, engine, folder, stack):
        self.store = await stack.enter_async_context(
            open_engine_store(engine, folder, fault_hook=self.fault)
        )
        core = build_core(Settings(home=folder), self.store, self.clock, (), limits_key=b"secret")
        self.app = build_app(core)
        self.guards = IdempotencyLocks(self.app)
        await self.app.limit_sync.exchange()
        return self

    async def does(self, what, work=None, *, seconds=60.0):
        """Run work under a key; return its result, the reason of a conflict, or the error."""
        try:
            await self.guards.acquire(what, seconds)
            return await self.guards.run_locked(what, work or done, WALLET)
        except ApiError as error:
            return (
                error.details["reason"] if error.code is ErrorCode.IDEMPOTENCY_CONFLICT else error
            )


async def done():
    return "done"


class Slow:
    """Work that ends when the test lets it."""

    def __init__(self) -> None:
        self.started, self.let = asyncio.Event(), asyncio.Event()

    async def __call__(self):
        self.started.set()
        await self.let.wait()
        return "done"


async def wait_for_results(*tasks, polling):
    """Return the tasks' results; a process that polls does so at once."""
    while not all(task.done() for task in tasks):
        if polling.clock.sleeper_count:
            polling.clock.advance(0.01)
        await asyncio.sleep(0.001)
    return [task.result() for task in tasks]


async def turns(server, folder):
    return await execute_beside(server.store, folder, "SELECT key, process_id FROM key_turn")


@pytest.fixture
async def servers(engine, tmp_path):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with AsyncExitStack() as stack:
        yield [await Server().start(engine, tmp_path, stack) for _ in range(2)]
    # exceptions of forgotten tasks and callbacks are reported when they are collected
    gc.collect()
    assert faults == []


async def test_only_the_first_of_two_different_requests_under_a_key_is_executed(
    servers, engine, tmp_path
):
    first, second = servers
    work = Slow()
    task = asyncio.create_task(first.does(key(b"a"), work))
    await work.started.wait()
    other = asyncio.create_task(second.does(key(b"b")))
    await wait_until(lambda: second.clock.sleeper_count, 1)
    work.let.set()
    assert await wait_for_results(task, other, polling=second) == ["done", "different_body"]
    await wait_until(lambda: second.guards.call_count, 0)
    assert await turns(first, tmp_path) == []
    # the key is bound for good, and the check needs no lease
    assert await first.does(key(b"b")) == "different_body"
    assert await second.does(key(b"a")) == "done"


async def test_equal_requests_under_a_key_run_in_sequence(servers, engine):
    first, second = servers
    work, later = Slow(), Slow()
    task = asyncio.create_task(first.does(key(), work))
    await work.started.wait()
    other = asyncio.create_task(second.does(key(), later))
    await wait_until(lambda: second.clock.sleeper_count, 1)
    assert not later.started.is_set()
    later.let.set()
    work.let.set()
    assert await wait_for_results(task, other, polling=second) == ["done", "done"]


async def test_failed_work_releases_the_key(servers, engine, tmp_path):
    first, second = servers

    async def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await first.does(key(b"a"), fails)
    await wait_until(lambda: first.guards.call_count, 0)
    assert await turns(first, tmp_path) == []
    assert await second.does(key(b"b")) == "done"


async def test_request_without_time_is_refused_while_another_process_works(servers, engine):
    first, second = servers
    work = Slow()
    task = asyncio.create_task(first.does(key(), work))
    await work.started.wait()
    assert await second.does(key(), seconds=0.0) == "in_flight"
    # the lease is still the first process's
    assert await second.does(key(), seconds=0.3) == "in_flight"
    work.let.set()
    assert await task == "done"


async def test_the_refusal_says_when_to_come_again(servers, engine):
    first, second = servers
    work = Slow()
    task = asyncio.create_task(first.does(key(), work))
    await work.started.wait()
    with pytest.raises(ApiError) as caught:
        await second.guards.acquire(key(), 0.0)
    error = caught.value
    assert error.code is ErrorCode.IDEMPOTENCY_CONFLICT
    assert error.message == "A request under this key is still running"
    assert (error.retry_after_s, error.http_status, error.grpc_status) == (1, 409, "ABORTED")
    work.let.set()
    assert await task == "done"


async def test_waiting_request_polls_with_increasing_delay(servers, engine, monkeypatch):
    first, second = servers
    work, waited = Slow(), []

    async def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 8:
            work.let.set()
        await asyncio.sleep(0)

    task = asyncio.create_task(first.does(key(), work))
    await work.started.wait()
    monkeypatch.setattr(second.clock, "sleep", sleep)
    assert await second.does(key()) == await task == "done"
    assert waited[:8] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5]


async def test_canceled_request_leaves_no_lease_behind(servers, engine, tmp_path):
    first, second = servers
    for wait in range(12):
        leaves = asyncio.create_task(first.does(key(b"a")))
        for _ in range(wait):
            await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        await wait_until(lambda: first.guards.call_count, 0)
        assert await turns(first, tmp_path) == []
    work = Slow()
    task = asyncio.create_task(first.does(key(b"c", "another"), work))
    await work.started.wait()
    waits = asyncio.create_task(second.does(key(b"c", "another")))
    await wait_until(lambda: second.clock.sleeper_count, 1)
    waits.cancel()
    await wait_until(lambda: second.guards.call_count, 0)
    ((_, owner),) = await turns(first, tmp_path)
    assert owner == first.app.limit_sync.process_id
    work.let.set()
    assert await task == "done"


async def test_request_canceled_during_store_failure_leaves_no_error_behind(servers, engine):
    first, _ = servers
    first.broken = True
    for wait in range(12):
        leaves = asyncio.create_task(first.does(key(name=f"key {wait}")))
        for _ in range(wait):
            await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
    first.broken = False

    async def wake():
        first.clock.advance(1)

    await wait_until(lambda: first.guards.call_count, 0, meanwhile=wake)


async def test_the_turn_of_a_dead_process_is_taken_over_when_it_is_missed(servers, engine):
    dead, alive = servers
    work = Slow()
    lost = asyncio.create_task(dead.does(key(), work))
    await work.started.wait()
    alive.clock.advance(4.9)
    await alive.app.limit_sync.exchange()
    waits = asyncio.create_task(alive.does(key()))
    await wait_until(lambda: alive.clock.sleeper_count, 1)
    alive.clock.advance(0.1)
    await alive.app.limit_sync.exchange()
    assert await wait_for_results(waits, polling=alive) == ["done"]
    # the process that was only away finds the work done, by an equal request
    work.let.set()
    assert await lost == "done"


async def test_lease_of_another_key_does_not_block_a_lease(servers, engine):
    dead, alive = servers
    works = [Slow(), Slow()]
    lost = asyncio.create_task(dead.does(key(name="lost"), works[0]))
    held = asyncio.create_task(alive.does(key(name="held"), works[1]))
    for work in works:
        await work.started.wait()
    alive.clock.advance(6)
    await alive.app.limit_sync.exchange()
    assert await alive.does(key(name="lost")) == "done"
    assert await dead.does(key(name="held"), seconds=0.0) == "in_flight"
    for work in works:
        work.let.set()
    assert [await lost, await held] == ["done", "done"]


async def test_process_that_was_away_gets_different_body(servers, engine):
    away, alive = servers
    work = Slow()
    late = asyncio.create_task(away.does(key(b"a"), work))
    await work.started.wait()
    alive.clock.advance(6)
    await alive.app.limit_sync.exchange()
    assert await alive.does(key(b"b")) == "done"
    work.let.set()
    assert await late == "different_body"


async def test_a_process_that_ends_leaves_no_turn(servers, engine, tmp_path):
    first, second = servers
    work = Slow()
    async with first.app.limit_sync.run_in_background():
        lost = asyncio.create_task(first.does(key(), work))
        await work.started.wait()
    assert await turns(second, tmp_path) == []
    assert await second.does(key()) == "done"
    work.let.set()
    assert await lost == "done"


async def test_lease_is_released_once_the_store_recovers(servers, engine, tmp_path):
    first, second = servers
    work = Slow()

    async def breaks():
        await work()
        first.broken = True
        raise ValueError

    task = asyncio.create_task(first.does(key(), breaks))
    await work.started.wait()
    work.let.set()
    await asyncio.wait([task])
    assert isinstance(task.exception(), ValueError)
    await wait_until(lambda: first.clock.sleeper_count, 1)
    assert len(await turns(second, tmp_path)) == 1
    first.broken = False
    first.clock.advance(1)
    await wait_until(lambda: first.guards.call_count, 0)
    assert await turns(second, tmp_path) == []


async def test_lease_that_may_have_been_taken_is_released(servers, engine, tmp_path):
    first, second = servers
    first.broken = True
    with pytest.raises(StoreUnavailable):
        await first.does(key())
    await wait_until(lambda: first.clock.sleeper_count, 1)
    first.broken = False
    first.clock.advance(1)
    await wait_until(lambda: first.guards.call_count, 0)
    assert await second.does(key()) == "done"


async def test_statements_that_wait_for_other_processes_run_in_separate_transactions(
    engine, tmp_path
):
    steps: list[str] = []
    store = await open_store(
        postgres.get_database(tmp_path, engine, writers=1), fault_hook=steps.append
    )
    claim = IdempotencyClaim("scope", "key", b"a" * 32, NOW_US, None)
    reporting_op = sharing.exchange("process", NOW_US, [], {}, [])
    plain = [payments.create(make_payment()) for _ in range(4)]
    alone, together = ["op", "commit", "committed"], ["op", "op", "commit", "committed"]
    mixed = [plain[2], key_turns.acquire(claim, "process"), reporting_op, plain[3]]
    try:
        for ops, expected in ((plain[:2], together), (mixed, alone * 4)):
            steps.clear()
            await asyncio.gather(*(store.write(op) for op in ops))
            assert steps == expected
    finally:
        await store.close()


async def test_many_at_once_under_few_keys_are_never_two_at_a_time(servers, engine, tmp_path):
    chance, at_work, results = random.Random(7), Counter(), {}

    async def caller(server, what):
        async def work():
            at_work[what.key] += 1
            assert at_work[what.key] == 1
            await asyncio.sleep(0.001 * chance.random())
            at_work[what.key] -= 1
            if chance.random() < 0.2:
                raise ZeroDivisionError
            results.setdefault(what.key, set()).add(what.fingerprint)
            return "done"

        try:
            return await server.does(what, work)
        except ZeroDivisionError:
            return "failed"

    calls = [
        asyncio.create_task(caller(chance.choice(servers), key(body, f"key {number % 4}")))
        for number in range(80)
        for body in (chance.choice([b"a", b"b"]),)
    ]
    while not all(call.done() for call in calls):
        for server in servers:
            if server.clock.sleeper_count:
                server.clock.advance(0.02)
        # otherwise each process would consider the other dead
        await asyncio.gather(*(server.app.limit_sync.exchange() for server in servers))
    counter = Counter(call.result() for call in calls)
    assert {len(done) for done in results.values()} == {1}
    assert len(results) == 4
    assert counter["done"] > 20
    assert counter["different_body"] > 20
    assert counter["in_flight"] == 0
    await wait_until(lambda: [server.guards.call_count for server in servers], [0, 0])
    assert await turns(servers[0], tmp_path) == []
