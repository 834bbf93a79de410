"""Keys that only guard, in several processes: one of two requests is done, equal ones in turn."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from florin_server.boot.app import app_of, core_of
from florin_server.clock import TestClock
from florin_server.config import Settings
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.app import Caller, IdempotencyKey
from florin_server.rpc.server.idempotency import Guards
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.limits import sharing
from florin_server.store.payments import key_turns, payments
from florin_server.store.payments.idempotency import Claim

from tests.support import postgres
from tests.support.store_kit import ENGINES, NOW_US, beside, opened, payment
from tests.support.until import until

WALLET = Caller(live=False, credential="app_1/client", network="192.0.2.1")
SHARED = [engine for engine in ENGINES if engine != postgres.SQLITE]

pytestmark = pytest.mark.parametrize("engine", SHARED)


def key(body: bytes = b"a", name: str = "key") -> IdempotencyKey:
    return IdempotencyKey("guard/app_1/test", name, body * 32)


class Server:
    """One process; `fault` makes its store fail before a commit."""

    def __init__(self) -> None:
        self.clock = TestClock(NOW_US)
        self.broken = False

    def fault(self, step: str) -> None:
        if self.broken and step == "commit":
            raise StoreUnavailable("it was pulled out")

    async def start(self, engine, folder, stack):
        self.store = await stack.enter_async_context(opened(engine, folder, fault=self.fault))
        core = core_of(Settings(home=folder), self.store, self.clock, (), limits_key=b"secret")
        self.app = app_of(core)
        self.guards = Guards(self.app)
        await self.app.sharing.exchange()
        return self

    async def does(self, what, work=None, *, seconds=60.0):
        """What a call under a key comes to."""
        try:
            await self.guards.take(what, seconds)
            return await self.guards.run(what, work or done, WALLET)
        except FlorinError as error:
            return error.details["reason"] if error.code is Code.IDEMPOTENCY_CONFLICT else error


async def done():
    return "done"


class Slow:
    """Work that ends when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = asyncio.Event(), asyncio.Event()

    async def __call__(self):
        self.begun.set()
        await self.let.wait()
        return "done"


async def told(*tasks, polling):
    """What they come to, whatever they wait for; whoever polls does so at once."""
    while not all(task.done() for task in tasks):
        if polling.clock.sleepers:
            polling.clock.advance(0.01)
        await asyncio.sleep(0.001)
    return [task.result() for task in tasks]


async def turns(server, folder):
    return await beside(server.store, folder, "SELECT key, process_id FROM key_turn")


@pytest.fixture
async def servers(engine, tmp_path):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with AsyncExitStack() as stack:
        yield [await Server().start(engine, tmp_path, stack) for _ in range(2)]
    # what a task or a callback left behind is told when it is collected
    gc.collect()
    assert faults == []


async def test_of_two_requests_under_a_key_one_is_done(servers, engine, tmp_path):
    first, second = servers
    work = Slow()
    one = asyncio.create_task(first.does(key(b"a"), work))
    await work.begun.wait()
    other = asyncio.create_task(second.does(key(b"b")))
    await until(lambda: second.clock.sleepers, 1)
    work.let.set()
    assert await told(one, other, polling=second) == ["done", "different_body"]
    await until(lambda: second.guards.calls, 0)
    assert await turns(first, tmp_path) == []
    # it is bound for good, and nobody takes a turn to find that out
    assert await first.does(key(b"b")) == "different_body"
    assert await second.does(key(b"a")) == "done"


async def test_equal_requests_are_done_one_after_the_other(servers, engine):
    first, second = servers
    work, later = Slow(), Slow()
    one = asyncio.create_task(first.does(key(), work))
    await work.begun.wait()
    other = asyncio.create_task(second.does(key(), later))
    await until(lambda: second.clock.sleepers, 1)
    assert not later.begun.is_set()
    later.let.set()
    work.let.set()
    assert await told(one, other, polling=second) == ["done", "done"]


async def test_work_that_fails_leaves_the_key_to_others(servers, engine, tmp_path):
    first, second = servers

    async def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await first.does(key(b"a"), fails)
    await until(lambda: first.guards.calls, 0)
    assert await turns(first, tmp_path) == []
    assert await second.does(key(b"b")) == "done"


async def test_who_has_no_time_is_refused_while_another_process_works(servers, engine):
    first, second = servers
    work = Slow()
    one = asyncio.create_task(first.does(key(), work))
    await work.begun.wait()
    assert await second.does(key(), seconds=0.0) == "in_flight"
    # its turn is still the first one's
    assert await second.does(key(), seconds=0.3) == "in_flight"
    work.let.set()
    assert await one == "done"


async def test_the_refusal_says_when_to_come_again(servers, engine):
    first, second = servers
    work = Slow()
    one = asyncio.create_task(first.does(key(), work))
    await work.begun.wait()
    with pytest.raises(FlorinError) as caught:
        await second.guards.take(key(), 0.0)
    told = caught.value
    assert told.code is Code.IDEMPOTENCY_CONFLICT
    assert told.message == "A request under this key is still running"
    assert (told.retry_after_s, told.http, told.grpc) == (1, 409, "ABORTED")
    work.let.set()
    assert await one == "done"


async def test_who_waits_looks_more_and_more_seldom(servers, engine, monkeypatch):
    first, second = servers
    work, waited = Slow(), []

    async def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 8:
            work.let.set()
        await asyncio.sleep(0)

    one = asyncio.create_task(first.does(key(), work))
    await work.begun.wait()
    monkeypatch.setattr(second.clock, "sleep", sleep)
    assert await second.does(key()) == await one == "done"
    assert waited[:8] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5, 0.5]


async def test_who_leaves_takes_no_turn_along(servers, engine, tmp_path):
    first, second = servers
    for wait in range(12):
        leaves = asyncio.create_task(first.does(key(b"a")))
        for _ in range(wait):
            await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        await until(lambda: first.guards.calls, 0)
        assert await turns(first, tmp_path) == []
    work = Slow()
    one = asyncio.create_task(first.does(key(b"c", "another"), work))
    await work.begun.wait()
    waits = asyncio.create_task(second.does(key(b"c", "another")))
    await until(lambda: second.clock.sleepers, 1)
    waits.cancel()
    await until(lambda: second.guards.calls, 0)
    ((_, owner),) = await turns(first, tmp_path)
    assert owner == first.app.sharing.process
    work.let.set()
    assert await one == "done"


async def test_who_leaves_while_the_store_fails_leaves_no_fault_behind(servers, engine):
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

    await until(lambda: first.guards.calls, 0, meanwhile=wake)


async def test_the_turn_of_a_dead_process_is_taken_over_when_it_is_missed(servers, engine):
    dead, alive = servers
    work = Slow()
    lost = asyncio.create_task(dead.does(key(), work))
    await work.begun.wait()
    alive.clock.advance(4.9)
    await alive.app.sharing.exchange()
    waits = asyncio.create_task(alive.does(key()))
    await until(lambda: alive.clock.sleepers, 1)
    alive.clock.advance(0.1)
    await alive.app.sharing.exchange()
    assert await told(waits, polling=alive) == ["done"]
    # the one that was only away finds that it was done, by an equal request
    work.let.set()
    assert await lost == "done"


async def test_the_turns_of_others_say_nothing_of_this_one(servers, engine):
    dead, alive = servers
    works = [Slow(), Slow()]
    lost = asyncio.create_task(dead.does(key(name="lost"), works[0]))
    held = asyncio.create_task(alive.does(key(name="held"), works[1]))
    for work in works:
        await work.begun.wait()
    alive.clock.advance(6)
    await alive.app.sharing.exchange()
    assert await alive.does(key(name="lost")) == "done"
    assert await dead.does(key(name="held"), seconds=0.0) == "in_flight"
    for work in works:
        work.let.set()
    assert [await lost, await held] == ["done", "done"]


async def test_who_was_only_away_is_told_that_another_request_was_done(servers, engine):
    away, alive = servers
    work = Slow()
    late = asyncio.create_task(away.does(key(b"a"), work))
    await work.begun.wait()
    alive.clock.advance(6)
    await alive.app.sharing.exchange()
    assert await alive.does(key(b"b")) == "done"
    work.let.set()
    assert await late == "different_body"


async def test_a_process_that_ends_leaves_no_turn(servers, engine, tmp_path):
    first, second = servers
    work = Slow()
    async with first.app.sharing.running():
        lost = asyncio.create_task(first.does(key(), work))
        await work.begun.wait()
    assert await turns(second, tmp_path) == []
    assert await second.does(key()) == "done"
    work.let.set()
    assert await lost == "done"


async def test_a_turn_is_given_back_once_the_store_works_again(servers, engine, tmp_path):
    first, second = servers
    work = Slow()

    async def breaks():
        await work()
        first.broken = True
        raise ValueError

    one = asyncio.create_task(first.does(key(), breaks))
    await work.begun.wait()
    work.let.set()
    await asyncio.wait([one])
    assert isinstance(one.exception(), ValueError)
    await until(lambda: first.clock.sleepers, 1)
    assert len(await turns(second, tmp_path)) == 1
    first.broken = False
    first.clock.advance(1)
    await until(lambda: first.guards.calls, 0)
    assert await turns(second, tmp_path) == []


async def test_a_turn_that_may_have_been_taken_is_given_back(servers, engine, tmp_path):
    first, second = servers
    first.broken = True
    with pytest.raises(StoreUnavailable):
        await first.does(key())
    await until(lambda: first.clock.sleepers, 1)
    first.broken = False
    first.clock.advance(1)
    await until(lambda: first.guards.calls, 0)
    assert await second.does(key()) == "done"


async def test_what_may_wait_for_other_processes_shares_no_transaction(engine, tmp_path):
    steps: list[str] = []
    store = await open_store(postgres.of(tmp_path, engine, writers=1), fault=steps.append)
    claim = Claim("scope", "key", b"a" * 32, NOW_US, None)
    tells = sharing.exchange("process", NOW_US, [], {}, [])
    plain = [payments.create(payment()) for _ in range(4)]
    alone, together = ["op", "commit", "committed"], ["op", "op", "commit", "committed"]
    mixed = [plain[2], key_turns.take(claim, "process"), tells, plain[3]]
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
            if server.clock.sleepers:
                server.clock.advance(0.02)
        # or each would take the other for dead
        await asyncio.gather(*(server.app.sharing.exchange() for server in servers))
    told = Counter(call.result() for call in calls)
    assert {len(done) for done in results.values()} == {1}
    assert len(results) == 4
    assert told["done"] > 20
    assert told["different_body"] > 20
    assert told["in_flight"] == 0
    await until(lambda: [server.guards.calls for server in servers], [0, 0])
    assert await turns(servers[0], tmp_path) == []
