"""Writes to SQLite are committed in groups, and nobody is told before they are on disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine import writer
from florin_server.store.engine.query import Query, StoreError, operation
from florin_server.store.payments import payments
from florin_server.store.payments.reader import PaymentReader

from tests.support.postgres import SQLITE
from tests.support.store_kit import created, opened, payment, pragma


class Steps:
    """Counts the durable steps, and does something at one of them."""

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
    async with opened(SQLITE, tmp_path, fault=steps) as store:
        yield store


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Groups end because nobody asks for more, however slow the machine."""
    monkeypatch.setattr(writer, "_HOLD_S", 60.0)


@pytest.fixture
def slow_disk():
    """A commit that waits until it is told; not for ever, or a failure would not be seen."""
    released = threading.Event()
    released.hold = lambda: released.wait(5)
    yield released
    released.set()


class Words:
    """A statement that no operation has."""

    def __init__(self, sql: str) -> None:
        self.sqlite = self
        self.sql = sql

    def values(self, _params):
        return ()

    def rows(self, rows):
        return rows


@operation
def says(sql: str):
    yield Query(Words(sql), {})


@operation
def fails_after_writing(made):
    yield from payments.create(made)
    raise LookupError(made.id)


def stored_now(tmp_path) -> int:
    with sqlite3.connect(tmp_path / "florin.db") as other:
        ((count,),) = other.execute("SELECT count(*) FROM payment").fetchall()
    other.close()
    return count


async def test_all_who_ask_at_once_share_a_commit(store, steps):
    await asyncio.gather(*(store.write(payments.create(payment())) for _ in range(50)))
    assert steps.seen == ["op"] * 50 + ["commit", "committed"]


async def test_whoever_asks_during_a_commit_is_in_the_next_group(store, steps, slow_disk):
    steps.at["commit"] = slow_disk.hold
    first = asyncio.ensure_future(store.write(payments.create(payment())))
    while "commit" not in steps.seen:  # noqa: ASYNC110  (the loop itself has to come round)
        await asyncio.sleep(0)
    late = [asyncio.ensure_future(store.write(payments.create(payment()))) for _ in "ab"]
    await asyncio.sleep(0)
    slow_disk.set()
    await asyncio.gather(first, *late)
    assert steps.seen == ["op", "commit", "committed", "op", "op", "commit", "committed"]


async def test_a_slow_disk_does_not_stop_the_loop(store, steps, slow_disk):
    steps.at["commit"] = slow_disk.hold
    write = asyncio.ensure_future(store.write(payments.create(payment())))
    while "commit" not in steps.seen:  # noqa: ASYNC110  (the loop itself has to come round)
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not write.done()
    slow_disk.set()
    await write


async def test_nobody_is_told_before_the_commit_is_on_disk(store, steps, tmp_path):
    counts, told = [], []

    def look():
        counts.append(stored_now(tmp_path))
        told.append(write.done())

    steps.at = {"op": look, "commit": look, "committed": look}
    write = asyncio.ensure_future(store.write(payments.create(payment())))
    await write
    assert counts == [0, 0, 1]
    assert told == [False, False, False]


async def test_an_operation_that_fails_leaves_no_trace_and_the_others_whole(store, steps):
    made = [payment() for _ in range(9)]
    ops = [
        fails_after_writing(one) if n % 3 == 1 else payments.create(one)
        for n, one in enumerate(made)
    ]
    outcomes = await asyncio.gather(*map(store.write, ops), return_exceptions=True)
    assert [isinstance(found, LookupError) for found in outcomes] == [False, True, False] * 3
    found = await store.read(payments.get([one.id for one in made]))
    assert set(found) == {one.id for n, one in enumerate(made) if n % 3 != 1}
    assert steps.seen.count("commit") == 1
    for n, one in enumerate(made):
        assert len(await store.read(payments.events(one.id))) == (n % 3 != 1)


async def test_a_statement_that_fails_is_the_error_of_its_caller_alone(store):
    of = await created(store)
    outcomes = await asyncio.gather(
        store.write(payments.create(of)),
        store.write(payments.create(payment())),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], StoreError)
    assert not isinstance(outcomes[1], Exception)


async def test_a_transaction_that_is_lost_is_lost_for_all_in_it(store):
    made = [payment() for _ in range(3)]
    outcomes = await asyncio.gather(
        store.write(payments.create(made[0])),
        store.write(says("ROLLBACK")),
        store.write(payments.create(made[1])),
        return_exceptions=True,
    )
    lost = [found for found in outcomes if isinstance(found, StoreError)]
    assert len(lost) >= 2
    stored = await store.read(payments.get([one.id for one in made]))
    assert made[0].id not in stored
    assert (made[1].id in stored) is not isinstance(outcomes[2], StoreError)
    await store.write(payments.create(made[2]))
    assert await store.reader.payment(made[2].id) == made[2]


async def test_a_full_disk_is_told_and_survived(store):
    pragma(store, "max_page_count=100")
    made = [payment(reference_id="x" * 20_000) for _ in range(40)]
    outcomes = await asyncio.gather(
        *(store.write(payments.create(one)) for one in made), return_exceptions=True
    )
    failed = {one.id for one, found in zip(made, outcomes, strict=True) if found != one}
    assert failed
    assert all(isinstance(found, StoreError) for found in outcomes if found not in made)
    stored = set(await store.read(payments.get([one.id for one in made])))
    assert stored == {one.id for one in made} - failed
    pragma(store, "max_page_count=1000000")
    await store.write(payments.create(payment()))


async def test_a_caller_that_gave_up_in_time_was_never_served(store, steps):
    made, other = payment(), payment()
    gave_up = asyncio.ensure_future(store.write(payments.create(made)))
    stays = asyncio.ensure_future(store.write(payments.create(other)))
    await asyncio.sleep(0)
    gave_up.cancel()
    await asyncio.wait([gave_up, stays])
    assert set(await store.read(payments.get([made.id, other.id]))) >= {other.id}
    assert (await store.reader.payment(made.id) is None) == (steps.seen.count("op") == 1)


async def test_a_queue_without_end_is_refused(store, monkeypatch):
    monkeypatch.setattr(writer, "_QUEUE", 3)
    outcomes = await asyncio.gather(
        *(store.write(payments.create(payment())) for _ in range(5)), return_exceptions=True
    )
    refused = [found for found in outcomes if isinstance(found, FlorinError)]
    assert [(one.code, one.http, one.retry_after_s) for one in refused] == [
        (Code.INTERNAL_ERROR, 503, 1)
    ] * 2


async def test_a_group_does_not_hold_the_loop_for_long(store, steps, monkeypatch):
    monkeypatch.setattr(writer, "_HOLD_S", -1.0)
    await asyncio.gather(*(store.write(payments.create(payment())) for _ in range(5)))
    assert steps.seen == ["op", "commit", "committed"] * 5


async def test_closing_commits_what_is_queued(store):
    writes = [asyncio.ensure_future(store.write(payments.create(payment())))]
    await asyncio.sleep(0)
    await store.close()
    assert writes[0].result().version == 0
    for use in (store.write, store.read):
        with pytest.raises(StoreError, match="closed"):
            await use(payments.next_expiry())


async def test_a_read_sees_one_state_however_long_it_takes(store, monkeypatch):
    monkeypatch.setattr("florin_server.store.engine.sqlite_store._HOLD_S", -1.0)
    made = payment()

    @operation
    def slow():
        seen = set()
        for _ in range(50):
            seen.add(bool((yield from payments.get([made.id]))))
        return seen

    read = asyncio.ensure_future(store.read(slow()))
    await asyncio.sleep(0)
    await store.write(payments.create(made))
    assert await read == {False}
    assert await store.read(slow()) == {True}


async def test_a_read_cannot_write(store):
    with pytest.raises(StoreError, match="readonly"):
        await store.read(payments.create(payment()))
    await store.read(payments.next_expiry())


async def test_reads_at_once_become_one_question(store):
    made = [await created(store) for _ in range(3)]
    asked = []

    async def read(op):
        asked.append(op)
        return await store.read(op)

    reader = PaymentReader(read)
    wanted = [made[n % 3].id for n in range(60)] + ["pay_none"]
    found = await asyncio.gather(*map(reader.payment, wanted))
    assert found == [made[n % 3] for n in range(60)] + [None]
    assert len(asked) == 1
    assert await reader.payment(made[0].id) == made[0]
    assert len(asked) == 2


async def test_the_first_reads_of_a_turn_are_done_at_once_where_that_can_be(store):
    made = [await created(store) for _ in range(3)]
    asked = []

    async def read(op):
        asked.append(len(asked))
        return await store.read(op)

    reader = PaymentReader(read, at_once=2)
    for turn in range(1, 4):
        wanted = [made[n % 3].id for n in range(60)] + ["pay_none"]
        found = await asyncio.gather(*map(reader.payment, wanted))
        assert found == [made[n % 3] for n in range(60)] + [None]
        assert len(asked) == 3 * turn
        # one that is over before the next turn begins does not wait for it
        await asyncio.sleep(0)
    assert await reader.payment(made[0].id) == made[0]
    assert len(asked) == 10


async def test_a_read_that_fails_fails_for_everybody_and_the_next_one_works(store):
    faults = [StoreError("gone")]

    async def read(op):
        if faults:
            raise faults.pop()
        return await store.read(op)

    reader = PaymentReader(read)
    outcomes = await asyncio.gather(*map(reader.payment, "abc"), return_exceptions=True)
    assert all(isinstance(found, StoreError) for found in outcomes)
    assert await reader.payment("a") is None


async def test_a_reader_that_gives_up_does_not_disturb_the_others(store):
    of = await created(store)
    gives_up, stays = [asyncio.ensure_future(store.reader.payment(of.id)) for _ in range(2)]
    await asyncio.sleep(0)
    gives_up.cancel()
    assert await stays == of
