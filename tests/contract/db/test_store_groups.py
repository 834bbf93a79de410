"""Test that SQLite writes are committed in groups, and acknowledged only when on disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest
from florin_server.db.engine import writer
from florin_server.db.engine.entity_reader import EntityReader
from florin_server.db.engine.query import Query, StoreError, operation
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.money.open_store import PAYMENT_QUERIES
from florin_server.money.payments.store import payments

from tests.support.postgres import SQLITE
from tests.support.store_factories import (
    create_payment,
    make_payment,
    open_engine_store,
    run_pragma,
)


class Steps:
    """A fault hook that counts the durable steps and acts at one of them."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.at = {}

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if step in self.at:
            self.at[step]()


@pytest.fixture
def steps():
    return Steps()


@pytest.fixture
async def store(tmp_path, steps):
    async with open_engine_store(SQLITE, tmp_path, fault_hook=steps) as store:
        yield store


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Make groups end only when no task asks for more, however slow the machine."""
    monkeypatch.setattr(writer, "_HOLD_S", 60.0)


@pytest.fixture
def slow_disk():
    """Make a commit wait for the test; the timeout keeps a failure visible."""
    released = threading.Event()
    released.hold = lambda: released.wait(5)
    yield released
    released.set()


class Words:
    """A statement that belongs to no operation."""

    def __init__(self, sql: str) -> None:
        self.sqlite = self
        self.sql = sql

    def encode_params(self, _params):
        return ()

    def decode_rows(self, rows):
        return rows


@operation
def says(sql: str):
    yield Query(Words(sql), {})


@operation
def fails_after_writing(created):
    yield from payments.create(created)
    raise LookupError(created.id)


def stored_now(tmp_path) -> int:
    with sqlite3.connect(tmp_path / "florin.db") as other:
        ((count,),) = other.execute("SELECT count(*) FROM payment").fetchall()
    other.close()
    return count


async def test_concurrent_writes_share_a_commit(store, steps):
    await asyncio.gather(*(store.write(payments.create(make_payment())) for _ in range(50)))
    assert steps.seen == ["op"] * 50 + ["commit", "committed"]


async def test_write_during_a_commit_joins_the_next_group(store, steps, slow_disk):
    steps.at["commit"] = slow_disk.hold
    first = asyncio.ensure_future(store.write(payments.create(make_payment())))
    while "commit" not in steps.seen:  # noqa: ASYNC110  (the loop itself must run a turn)
        await asyncio.sleep(0)
    late = [asyncio.ensure_future(store.write(payments.create(make_payment()))) for _ in "ab"]
    await asyncio.sleep(0)
    slow_disk.set()
    await asyncio.gather(first, *late)
    assert steps.seen == ["op", "commit", "committed", "op", "op", "commit", "committed"]


async def test_a_slow_disk_does_not_stop_the_loop(store, steps, slow_disk):
    steps.at["commit"] = slow_disk.hold
    write = asyncio.ensure_future(store.write(payments.create(make_payment())))
    while "commit" not in steps.seen:  # noqa: ASYNC110  (the loop itself must run a turn)
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not write.done()
    slow_disk.set()
    await write


async def test_write_completes_only_after_its_commit_is_on_disk(store, steps, tmp_path):
    counts, result = [], []

    def look():
        counts.append(stored_now(tmp_path))
        result.append(write.done())

    steps.at = {"op": look, "commit": look, "committed": look}
    write = asyncio.ensure_future(store.write(payments.create(make_payment())))
    await write
    assert counts == [0, 0, 1]
    assert result == [False, False, False]


async def test_failed_operation_leaves_no_trace_and_the_rest_of_its_group_intact(store, steps):
    created_payments = [make_payment() for _ in range(9)]
    ops = [
        fails_after_writing(payment) if n % 3 == 1 else payments.create(payment)
        for n, payment in enumerate(created_payments)
    ]
    outcomes = await asyncio.gather(*map(store.write, ops), return_exceptions=True)
    assert [isinstance(outcome, LookupError) for outcome in outcomes] == [False, True, False] * 3
    result = await store.read(payments.find_many([payment.id for payment in created_payments]))
    assert set(result) == {payment.id for n, payment in enumerate(created_payments) if n % 3 != 1}
    assert steps.seen.count("commit") == 1
    for n, each_payment in enumerate(created_payments):
        assert len(await store.read(payments.list_events(each_payment.id))) == (n % 3 != 1)


async def test_a_statement_that_fails_is_the_error_of_its_caller_alone(store):
    of = await create_payment(store)
    outcomes = await asyncio.gather(
        store.write(payments.create(of)),
        store.write(payments.create(make_payment())),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], StoreError)
    assert not isinstance(outcomes[1], Exception)


async def test_a_transaction_that_is_lost_is_lost_for_all_in_it(store):
    created_payments = [make_payment() for _ in range(3)]
    outcomes = await asyncio.gather(
        store.write(payments.create(created_payments[0])),
        store.write(says("ROLLBACK")),
        store.write(payments.create(created_payments[1])),
        return_exceptions=True,
    )
    lost = [outcome for outcome in outcomes if isinstance(outcome, StoreError)]
    assert len(lost) >= 2
    stored = await store.read(payments.find_many([payment.id for payment in created_payments]))
    assert created_payments[0].id not in stored
    assert (created_payments[1].id in stored) is not isinstance(outcomes[2], StoreError)
    await store.write(payments.create(created_payments[2]))
    assert await store.payments.find(created_payments[2].id) == created_payments[2]


async def test_full_disk_is_reported_and_survived(store):
    run_pragma(store, "max_page_count=100")
    created_payments = [make_payment(reference_id="x" * 20_000) for _ in range(40)]
    outcomes = await asyncio.gather(
        *(store.write(payments.create(payment)) for payment in created_payments),
        return_exceptions=True,
    )
    failed = {
        payment.id
        for payment, outcome in zip(created_payments, outcomes, strict=True)
        if outcome != payment
    }
    assert failed
    assert all(
        isinstance(outcome, StoreError) for outcome in outcomes if outcome not in created_payments
    )
    stored = set(await store.read(payments.find_many([payment.id for payment in created_payments])))
    assert stored == {payment.id for payment in created_payments} - failed
    run_pragma(store, "max_page_count=1000000")
    await store.write(payments.create(make_payment()))


async def test_a_caller_that_gave_up_in_time_was_never_served(store, steps):
    payment, other = make_payment(), make_payment()
    gave_up = asyncio.ensure_future(store.write(payments.create(payment)))
    stays = asyncio.ensure_future(store.write(payments.create(other)))
    await asyncio.sleep(0)
    gave_up.cancel()
    await asyncio.wait([gave_up, stays])
    assert set(await store.read(payments.find_many([payment.id, other.id]))) >= {other.id}
    assert (await store.payments.find(payment.id) is None) == (steps.seen.count("op") == 1)


async def test_a_queue_without_end_is_refused(store, monkeypatch):
    monkeypatch.setattr(writer, "_QUEUE", 3)
    outcomes = await asyncio.gather(
        *(store.write(payments.create(make_payment())) for _ in range(5)), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, ApiError)]
    assert [(error.code, error.http_status, error.retry_after_s) for error in refused] == [
        (ErrorCode.INTERNAL_ERROR, 503, 1)
    ] * 2


async def test_a_group_does_not_hold_the_loop_for_long(store, steps, monkeypatch):
    monkeypatch.setattr(writer, "_HOLD_S", -1.0)
    await asyncio.gather(*(store.write(payments.create(make_payment())) for _ in range(5)))
    assert steps.seen == ["op", "commit", "committed"] * 5


async def test_close_commits_queued_writes(store):
    writes = [asyncio.ensure_future(store.write(payments.create(make_payment())))]
    await asyncio.sleep(0)
    await store.close()
    assert writes[0].result().version == 0
    for use in (store.write, store.read):
        with pytest.raises(StoreError, match="closed"):
            await use(payments.find_next_expiry())


async def test_long_read_sees_a_single_snapshot(store, monkeypatch):
    monkeypatch.setattr("florin_server.db.engine.sqlite_store._HOLD_S", -1.0)
    payment = make_payment()

    @operation
    def slow():
        seen = set()
        for _ in range(50):
            seen.add(bool((yield from payments.find_many([payment.id]))))
        return seen

    read = asyncio.ensure_future(store.read(slow()))
    await asyncio.sleep(0)
    await store.write(payments.create(payment))
    assert await read == {False}
    assert await store.read(slow()) == {True}


async def test_a_read_cannot_write(store):
    with pytest.raises(StoreError, match="readonly"):
        await store.read(payments.create(make_payment()))
    await store.read(payments.find_next_expiry())


async def test_concurrent_reads_become_a_single_query(store):
    created_payments = [await create_payment(store) for _ in range(3)]
    requests = []

    async def read(op):
        requests.append(op)
        return await store.read(op)

    reader = EntityReader(read, PAYMENT_QUERIES)
    expected = [created_payments[n % 3].id for n in range(60)] + ["pay_none"]
    found_payments = await asyncio.gather(*map(reader.find, expected))
    assert found_payments == [created_payments[n % 3] for n in range(60)] + [None]
    assert len(requests) == 1
    assert await reader.find(created_payments[0].id) == created_payments[0]
    assert len(requests) == 2


async def test_the_first_reads_of_a_turn_are_done_at_once_where_that_can_be(store):
    created_payments = [await create_payment(store) for _ in range(3)]
    requests = []

    async def read(op):
        requests.append(len(requests))
        return await store.read(op)

    reader = EntityReader(read, PAYMENT_QUERIES, immediate_reads=2)
    for turn in range(1, 4):
        expected = [created_payments[n % 3].id for n in range(60)] + ["pay_none"]
        found_payments = await asyncio.gather(*map(reader.find, expected))
        assert found_payments == [created_payments[n % 3] for n in range(60)] + [None]
        assert len(requests) == 3 * turn
        # an operation that ends before the next turn does not wait for it
        await asyncio.sleep(0)
    assert await reader.find(created_payments[0].id) == created_payments[0]
    assert len(requests) == 10


async def test_failed_read_fails_for_every_reader_and_the_next_succeeds(store):
    faults = [StoreError("gone")]

    async def read(op):
        if faults:
            raise faults.pop()
        return await store.read(op)

    reader = EntityReader(read, PAYMENT_QUERIES)
    outcomes = await asyncio.gather(*map(reader.find, "abc"), return_exceptions=True)
    assert all(isinstance(outcome, StoreError) for outcome in outcomes)
    assert await reader.find("a") is None


async def test_canceled_reader_does_not_disturb_the_remaining_readers(store):
    of = await create_payment(store)
    gives_up, stays = [asyncio.ensure_future(store.payments.find(of.id)) for _ in range(2)]
    await asyncio.sleep(0)
    gives_up.cancel()
    assert await stays == of
