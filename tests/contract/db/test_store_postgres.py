"""Test the PostgreSQL store: groups, conflicts, broken connections, snapshots."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from florin_server.db import installation
from florin_server.db.engine.postgres.pool import ConnectionPool
from florin_server.db.engine.query import (
    Statement,
    StoreError,
    StoreUnavailable,
    operation,
    param,
)
from florin_server.db.tables.tables import installation_table
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from sqlalchemy import BigInteger, Text, column, select, table

from tests.support import postgres
from tests.support.store_factories import (
    create_once,
    create_payment,
    make_claim,
    make_payment,
    open_engine_store,
)
from tests.support.until import wait_until

pytestmark = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)
ENGINES = [each_engine for each_engine in postgres.list_engines() if each_engine != postgres.SQLITE]

_LOCK = Statement(
    select(installation_table.c.value)
    .where(installation_table.c.name == param("which"))
    .with_for_update(),
    str,
)


# of the connection that runs it; only plans that are kept have a count
_KEPT_PLANS = Statement(
    select(
        column("statement", Text), column("generic_plans", BigInteger).label("count")
    ).select_from(table("pg_prepared_statements")),
    tuple,
)


class Steps:
    """A fault hook that counts the durable steps and acts at one of them."""

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
    await postgres.drop_database(tmp_path)


@pytest.fixture
async def store(engine, tmp_path, steps):
    async with open_engine_store(engine, tmp_path, fault_hook=steps) as engine_store:
        yield engine_store


async def broken(folder, kind="write"):
    """Close every connection of a kind, as a stopping server does."""
    sql = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE datname = current_database() AND application_name = 'florin-{kind}'"
    )
    return await postgres.list_rows(postgres.get_database(folder).dsn, sql)


@operation
def fails_after_writing(created):
    yield from payments.create(created)
    raise ValueError("no")


@operation
def create_and_list_plans(payment):
    """Create a payment; return how often each kept plan of its connection was run."""
    yield from payments.create(payment)
    return dict((yield from _KEPT_PLANS.all()))


@operation
def count(name):
    """Increment a stored number under a lock."""
    value = yield from _LOCK.single(which=name)
    yield from installation.put_value(name, str(int(value) + 1))


async def test_many_at_once_share_transactions_and_each_gets_its_own_answer(
    engine, tmp_path, steps
):
    # with one writer there are no conflicts and no retries
    store = await open_store(postgres.get_database(tmp_path, engine, writers=1), fault_hook=steps)
    try:
        created_payments = [make_payment() for _ in range(200)]
        found_payments = await asyncio.gather(
            *(store.write(payments.create(payment)) for payment in created_payments)
        )
        assert found_payments == created_payments
        assert steps.seen.count("op") == 200
        assert steps.seen.count("commit") < 100
        assert not store.is_exclusive
        assert not store.is_busy
    finally:
        await store.close()


async def test_statements_of_create_are_planned_once_per_connection(engine, tmp_path):
    store = await open_store(postgres.get_database(tmp_path, engine, writers=1))
    try:
        for _ in range(20):
            run_counts = await store.write(create_and_list_plans(make_payment()))
    finally:
        await store.close()
    for name in ("payment", "payment_event", "webhook_delivery"):
        (count,) = (n for text, n in run_counts.items() if text.startswith(f"INSERT INTO {name} "))
        # the server tries other plans the first five times
        assert count == 15


async def test_column_whose_type_changes_is_still_read_and_written(engine, tmp_path):
    database = postgres.get_database(tmp_path, engine, writers=1, readers=1)
    store = await open_store(database)
    try:
        await store.write(installation.put_value("n", "1"))
        await store.write(count("n"))
        assert await store.read(installation.find_value("n")) == "2"
        alter = "ALTER TABLE installation ALTER COLUMN value TYPE varchar"
        await postgres.list_rows(database.dsn, alter)
        await store.write(count("n"))
        assert await store.read(installation.find_value("n")) == "3"
    finally:
        await store.close()


async def test_failed_operation_leaves_no_trace_and_the_rest_of_its_group_intact(store, steps):
    created_payments = [make_payment() for _ in range(40)]
    works = [
        fails_after_writing(payment) if n % 7 == 3 else payments.create(payment)
        for n, payment in enumerate(created_payments)
    ]
    results = await asyncio.gather(*map(store.write, works), return_exceptions=True)
    bad = {created_payments[n].id for n in range(40) if n % 7 == 3}
    # each was retried on its own
    assert steps.seen.count("retry") >= len(bad)
    assert [str(item) for item in results if isinstance(item, Exception)] == ["no"] * len(bad)
    assert (
        set(await store.read(payments.find_many([payment.id for payment in created_payments])))
        == {payment.id for payment in created_payments} - bad
    )


async def test_equal_requests_at_once_are_done_once(store):
    created_payments = [make_payment() for _ in range(60)]
    works = [
        create_once(payment, make_claim("same"), payment.id.encode())
        for payment in created_payments
    ]
    results = await asyncio.gather(*map(store.write, works))
    (first,) = [item for item in results if not isinstance(item, StoredResponse)]
    assert set(results) - {first} == {StoredResponse(first.id.encode())}
    assert set(
        await store.read(payments.find_many([payment.id for payment in created_payments]))
    ) == {first.id}


async def test_concurrent_increments_of_a_locked_row_add_up(store):
    await store.write(installation.put_value("n", "0"))
    await asyncio.gather(*(store.write(count("n")) for _ in range(120)))
    assert await store.read(installation.find_value("n")) == "120"


async def test_deadlocked_transactions_are_retried(store):
    """Two tasks lock two rows in opposite orders: one is rolled back, and both complete."""
    for name in ("a", "b"):
        await store.write(installation.put_value(name, "0"))

    @operation
    def both(first, second):
        yield from count(first)
        yield from count(second)

    # many groups on all connections
    works = [both("a", "b") if n % 2 else both("b", "a") for n in range(16)]
    await asyncio.gather(*map(store.write, works))
    assert await store.read(installation.find_value("a")) == "16"
    assert await store.read(installation.find_value("b")) == "16"


async def test_a_connection_that_breaks_before_a_commit_costs_nothing(store, steps, tmp_path):
    first = await create_payment(store)
    assert await broken(tmp_path)
    payment = await create_payment(store)
    assert set(await store.read(payments.find_many([first.id, payment.id]))) == {
        first.id,
        payment.id,
    }


async def test_commit_with_unknown_outcome_raises_store_unavailable(store, steps, tmp_path):
    payment = make_payment()
    await create_payment(store)
    steps.at["commit"] = lambda: postgres.run_coroutine(lambda: broken(tmp_path))
    with pytest.raises(StoreUnavailable, match="is unknown"):
        await store.write(payments.create(payment))
    assert await store.read(payments.find_many([payment.id])) == {}
    await store.write(payments.create(payment))


class Idle:
    """A connection that does nothing."""

    is_usable = True

    def drop(self) -> None:
        pass


async def test_pool_reports_connections_in_use_and_waiting():
    faults = [OSError("connection refused")]

    async def connect():
        if faults:
            raise faults.pop()
        return Idle()

    pool = ConnectionPool(connect, 1)
    with pytest.raises(StoreUnavailable):
        await pool.acquire()
    assert pool.usage == (0, 1, 0)
    first = await wait_until(partial(taken, pool))
    assert pool.usage == (1, 1, 0)
    tasks = [asyncio.create_task(pool.acquire()) for _ in range(2)]
    await wait_until(lambda: pool.usage, (1, 1, 2))
    pool.release(first)
    second = await tasks[0]
    assert pool.usage == (1, 1, 1)
    tasks[1].cancel()
    await wait_until(lambda: pool.usage, (1, 1, 0))
    pool.release(second)
    assert pool.usage == (0, 1, 0)


async def taken(pool: ConnectionPool) -> Idle | None:
    """Return a connection after the pause that follows a failure."""
    with suppress(StoreUnavailable):
        return await pool.acquire()
    return None


async def test_store_reports_the_use_of_its_connection_pools(store):
    await create_payment(store)
    assert set(store.pools) == {"read", "survey", "write"}
    assert all(use.in_use == use.waiting == 0 < use.size for use in store.pools.values())


async def test_a_read_asks_again_on_another_connection(store, tmp_path):
    of = await create_payment(store)
    assert await store.payments.find(of.id) == of
    assert await broken(tmp_path, "read")
    assert await store.payments.find(of.id) == of


async def test_read_of_several_queries_sees_a_single_snapshot(store):
    payment, between = make_payment(), asyncio.Event()

    @operation
    def slow():
        seen = set()
        for _ in range(50):
            seen.add(bool((yield from payments.find_many([payment.id]))))
            if len(seen) == 1:
                between.set()
        return seen

    assert await store.read(slow()) == {False}
    between.clear()
    read = asyncio.ensure_future(store.read(slow()))
    await between.wait()
    await store.write(payments.create(payment))
    assert len(await read) == 1
    assert await store.read(slow()) == {True}


async def test_a_read_cannot_write(store):
    for ask in (store.read, store.scan):
        with pytest.raises(StoreError, match="read-only"):
            await ask(payments.create(make_payment()))
    assert await store.read(payments.find_next_expiry()) is None


async def test_constraint_violation_is_no_outage_and_reveals_no_row_data(store):
    of = await create_payment(store, reference_id="personal")
    with pytest.raises(StoreError, match="pk_payment") as caught:
        await store.write(payments.create(of))
    assert type(caught.value) is StoreError
    assert "personal" not in str(caught.value)
    assert "personal" not in str(caught.value.__cause__)


async def test_a_queue_without_end_is_refused(store, monkeypatch):
    monkeypatch.setattr("florin_server.db.engine.postgres.writer._QUEUE", 3)
    outcomes = await asyncio.gather(
        *(store.write(payments.create(make_payment())) for _ in range(5)), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
    assert [(error.code, error.http_status, error.retry_after_s) for error in refused] == [
        (ErrorCode.INTERNAL_ERROR, 503, 1)
    ] * 2


async def test_close_commits_queued_writes(store):
    write = asyncio.ensure_future(store.write(payments.create(make_payment())))
    await asyncio.sleep(0)
    await store.close()
    assert (await write).version == 0
    for use in (store.write, store.read):
        with pytest.raises(StoreError, match="closed"):
            await use(payments.find_next_expiry())


async def test_canceled_caller_does_not_disturb_the_remaining_writes(store):
    created_payments = [make_payment() for _ in range(3)]
    writes = [
        asyncio.ensure_future(store.write(payments.create(payment))) for payment in created_payments
    ]
    await asyncio.sleep(0)
    writes[1].cancel()
    assert await writes[0] == created_payments[0]
    assert await writes[2] == created_payments[2]


async def test_missing_database_is_reported_at_once_and_recovers(store, tmp_path):
    of = await create_payment(store)
    dsn = postgres.get_database(tmp_path).dsn
    name = postgres.get_database_name(dsn)
    await postgres.run_commands(
        postgres.get_server_dsn(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"
    )
    try:
        await postgres.list_rows(
            postgres.get_server_dsn(),
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            f"WHERE datname = '{name}'",
        )
        for use in (store.payments.find(of.id), store.write(payments.create(make_payment()))):
            with pytest.raises(StoreUnavailable):
                await use
    finally:
        await postgres.run_commands(
            postgres.get_server_dsn(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"
        )

    async def find_payment():
        with suppress(StoreUnavailable):
            return await store.payments.find(of.id)

    await wait_until(find_payment, of)
