"""The store on PostgreSQL: groups, transactions that meet, connections that break, snapshots."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.postgres.pool import Pool
from florin_server.store.engine.query import (
    Statement,
    StoreError,
    StoreUnavailable,
    operation,
    param,
)
from florin_server.store.operator import installation
from florin_server.store.payments import payments
from florin_server.store.payments.idempotency import Replay
from florin_server.store.tables.tables import installation as kept
from sqlalchemy import select

from tests.support import postgres
from tests.support.store_kit import claim, create_once, created, opened, payment
from tests.support.until import until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
)
ENGINES = [one for one in postgres.chosen() if one != postgres.SQLITE]

_LOCK = Statement(select(kept.c.value).where(kept.c.name == param("which")).with_for_update())


class Steps:
    """Counts the durable steps, and does something at one of them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.at = {}

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if step in self.at:
            self.at.pop(step)()


@pytest.fixture
def steps():
    return Steps()


@pytest.fixture(params=ENGINES)
async def engine(request, tmp_path):
    yield request.param
    await postgres.forget(tmp_path)


@pytest.fixture
async def store(engine, tmp_path, steps):
    async with opened(engine, tmp_path, fault=steps) as made:
        yield made


async def broken(folder, kind="write"):
    """Ends every connection of a kind, as a server does that stops."""
    sql = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE datname = current_database() AND application_name = 'florin-{kind}'"
    )
    return await postgres.rows(postgres.of(folder).dsn, sql)


@operation
def fails_after_writing(made):
    yield from payments.create(made)
    raise ValueError("no")


@operation
def count(name):
    """Adds one to a number that is kept, and locks it before."""
    ((value,),) = yield _LOCK(which=name)
    yield from installation.put(name, str(int(value) + 1))


async def test_many_at_once_share_transactions_and_each_gets_its_own_answer(
    engine, tmp_path, steps
):
    # with one writer, no transaction meets another and is begun anew
    store = await open_store(postgres.of(tmp_path, engine, writers=1), fault=steps)
    try:
        made = [payment() for _ in range(200)]
        found = await asyncio.gather(*(store.write(payments.create(one)) for one in made))
        assert found == made
        assert steps.seen.count("op") == 200
        assert steps.seen.count("commit") < 100
        assert not store.exclusive
        assert not store.busy
    finally:
        await store.close()


async def test_an_operation_that_fails_leaves_no_trace_and_the_others_whole(store, steps):
    made = [payment() for _ in range(40)]
    works = [
        fails_after_writing(one) if n % 7 == 3 else payments.create(one)
        for n, one in enumerate(made)
    ]
    found = await asyncio.gather(*map(store.write, works), return_exceptions=True)
    bad = {made[n].id for n in range(40) if n % 7 == 3}
    # they were begun anew, each by itself
    assert steps.seen.count("retry") >= len(bad)
    assert [str(one) for one in found if isinstance(one, Exception)] == ["no"] * len(bad)
    assert (
        set(await store.read(payments.get([one.id for one in made])))
        == {one.id for one in made} - bad
    )


async def test_equal_requests_at_once_are_done_once(store):
    made = [payment() for _ in range(60)]
    works = [create_once(one, claim("same"), one.id.encode()) for one in made]
    found = await asyncio.gather(*map(store.write, works))
    (first,) = [one for one in found if not isinstance(one, Replay)]
    assert set(found) - {first} == {Replay(first.id.encode())}
    assert set(await store.read(payments.get([one.id for one in made]))) == {first.id}


async def test_what_decides_on_a_locked_row_adds_up(store):
    await store.write(installation.put("n", "0"))
    await asyncio.gather(*(store.write(count("n")) for _ in range(120)))
    assert await store.read(installation.get("n")) == "120"


async def test_whoever_meets_others_is_begun_anew(store):
    """Two that lock two rows in opposite orders: one of them is given up, and both are done."""
    for name in ("a", "b"):
        await store.write(installation.put(name, "0"))

    @operation
    def both(first, second):
        yield from count(first)
        yield from count(second)

    # many groups on all connections
    works = [both("a", "b") if n % 2 else both("b", "a") for n in range(16)]
    await asyncio.gather(*map(store.write, works))
    assert await store.read(installation.get("a")) == "16"
    assert await store.read(installation.get("b")) == "16"


async def test_a_connection_that_breaks_before_a_commit_costs_nothing(store, steps, tmp_path):
    first = await created(store)
    assert await broken(tmp_path)
    made = await created(store)
    assert set(await store.read(payments.get([first.id, made.id]))) == {first.id, made.id}


async def test_a_commit_whose_end_nobody_knows_is_told_as_such(store, steps, tmp_path):
    made = payment()
    await created(store)
    steps.at["commit"] = lambda: postgres.at_once(lambda: broken(tmp_path))
    with pytest.raises(StoreUnavailable, match="not known"):
        await store.write(payments.create(made))
    assert await store.read(payments.get([made.id])) == {}
    await store.write(payments.create(made))


class Idle:
    """A connection that does nothing."""

    usable = True

    def drop(self) -> None:
        pass


async def test_pool_tells_what_is_in_use_and_who_waits():
    faults = [OSError("nobody listens")]

    async def connect():
        if faults:
            raise faults.pop()
        return Idle()

    pool = Pool(connect, 1)
    with pytest.raises(StoreUnavailable):
        await pool.take()
    assert pool.use == (0, 1, 0)
    first = await until(partial(taken, pool))
    assert pool.use == (1, 1, 0)
    others = [asyncio.create_task(pool.take()) for _ in range(2)]
    await until(lambda: pool.use, (1, 1, 2))
    pool.give_back(first)
    second = await others[0]
    assert pool.use == (1, 1, 1)
    others[1].cancel()
    await until(lambda: pool.use, (1, 1, 0))
    pool.give_back(second)
    assert pool.use == (0, 1, 0)


async def taken(pool: Pool) -> Idle | None:
    """A connection, once the pause after a failure is over."""
    with suppress(StoreUnavailable):
        return await pool.take()
    return None


async def test_store_tells_the_use_of_its_connections(store):
    await created(store)
    assert set(store.pools) == {"read", "survey", "write"}
    assert all(use.in_use == use.waiting == 0 < use.size for use in store.pools.values())


async def test_a_read_asks_again_on_another_connection(store, tmp_path):
    of = await created(store)
    assert await store.reader.payment(of.id) == of
    assert await broken(tmp_path, "read")
    assert await store.reader.payment(of.id) == of


async def test_a_read_of_several_questions_sees_one_state(store):
    made, between = payment(), asyncio.Event()

    @operation
    def slow():
        seen = set()
        for _ in range(50):
            seen.add(bool((yield from payments.get([made.id]))))
            if len(seen) == 1:
                between.set()
        return seen

    assert await store.read(slow()) == {False}
    between.clear()
    read = asyncio.ensure_future(store.read(slow()))
    await between.wait()
    await store.write(payments.create(made))
    assert len(await read) == 1
    assert await store.read(slow()) == {True}


async def test_a_read_cannot_write(store):
    for ask in (store.read, store.survey):
        with pytest.raises(StoreError, match="read-only"):
            await ask(payments.create(payment()))
    assert await store.read(payments.next_expiry()) is None


async def test_a_mistake_of_ours_is_no_outage_and_tells_nothing_of_the_row(store):
    of = await created(store, reference_id="personal")
    with pytest.raises(StoreError, match="pk_payment") as caught:
        await store.write(payments.create(of))
    assert type(caught.value) is StoreError
    assert "personal" not in str(caught.value)
    assert "personal" not in str(caught.value.__cause__)


async def test_a_queue_without_end_is_refused(store, monkeypatch):
    monkeypatch.setattr("florin_server.store.engine.postgres.writer._QUEUE", 3)
    outcomes = await asyncio.gather(
        *(store.write(payments.create(payment())) for _ in range(5)), return_exceptions=True
    )
    refused = [found for found in outcomes if isinstance(found, FlorinError)]
    assert [(one.code, one.http, one.retry_after_s) for one in refused] == [
        (Code.INTERNAL_ERROR, 503, 1)
    ] * 2


async def test_closing_commits_what_is_queued(store):
    write = asyncio.ensure_future(store.write(payments.create(payment())))
    await asyncio.sleep(0)
    await store.close()
    assert (await write).version == 0
    for use in (store.write, store.read):
        with pytest.raises(StoreError, match="closed"):
            await use(payments.next_expiry())


async def test_a_caller_that_gave_up_does_not_disturb_the_others(store):
    made = [payment() for _ in range(3)]
    writes = [asyncio.ensure_future(store.write(payments.create(one))) for one in made]
    await asyncio.sleep(0)
    writes[1].cancel()
    assert await writes[0] == made[0]
    assert await writes[2] == made[2]


async def test_a_database_that_is_not_there_is_told_at_once_and_found_again(store, tmp_path):
    of = await created(store)
    dsn = postgres.of(tmp_path).dsn
    name = postgres.name_of(dsn)
    await postgres.commands(postgres.server(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    try:
        await postgres.rows(
            postgres.server(),
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = '{name}'",
        )
        for use in (store.reader.payment(of.id), store.write(payments.create(payment()))):
            with pytest.raises(StoreUnavailable):
                await use
    finally:
        await postgres.commands(postgres.server(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    async def found():
        with suppress(StoreUnavailable):
            return await store.reader.payment(of.id)

    await until(found, of)
