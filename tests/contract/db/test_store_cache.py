"""Test the cache of payments: no second read, and never anything but committed data."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from florin_server.accounts.store import customers
from florin_server.db.engine.entity_cache import EntityCache
from florin_server.db.engine.entity_reader import EntityReader
from florin_server.db.engine.query import Command, StoreError, operation
from florin_server.db.tables.tables import payment_event_table, payment_table
from florin_server.domain.payments.payment import CancellationReason, PaymentStatus
from florin_server.money.open_store import PAYMENT_QUERIES
from florin_server.money.payments.store import payments
from sqlalchemy import delete

from tests.support.postgres import SQLITE
from tests.support.store_factories import (
    AFTER_US,
    LATER_US,
    PAYER,
    create_payment,
    create_processing_payment,
    execute_beside,
    make_payment,
    open_engine_store,
)

ROUNDS, PAYMENTS, SEED = 300, 12, 7


@pytest.fixture
def at():
    """Set the action that the store runs first at a durable step."""
    return {}


@pytest.fixture
async def store(tmp_path, at):
    async with open_engine_store(
        SQLITE, tmp_path, fault_hook=lambda step: at.get(step, int)()
    ) as store:
        yield store


def cancel(of):
    return payments.cancel(of.id, CancellationReason.BY_USER, LATER_US)


@operation
def cancel_and_fail(of):
    yield from cancel(of)
    raise ValueError("on purpose")


@operation
def deleted(of):
    yield Command(delete(payment_event_table).where(payment_event_table.c.payment_id == of.id))()
    yield Command(delete(payment_table).where(payment_table.c.id == of.id))()


async def test_cached_payment_is_not_read_again(store, tmp_path):
    of, changed, other = [await create_payment(store) for _ in range(3)]
    changed = await store.write(cancel(changed))
    for item in (of, changed):
        assert await store.payments.find(item.id) == item
    await execute_beside(store, tmp_path, "UPDATE payment SET reference_id = 'past the store'")
    for item in (of, changed):
        assert await store.payments.find(item.id) == item
    assert (await store.payments.find(other.id)).reference_id == "past the store"


async def test_payment_hidden_from_its_caller_is_read_from_the_store(store, tmp_path):
    of = await create_payment(store)
    await store.payments.find(of.id)
    await execute_beside(store, tmp_path, "UPDATE payment SET reference_id = 'past the store'")
    read = await store.payments.find(of.id, lambda _: False)
    assert read.reference_id == "past the store"


async def test_every_change_of_a_payment_is_visible_at_once(store):
    async def changed(of, op):
        before = await store.payments.find(of.id)
        await store.write(op)
        result = await store.payments.find(of.id)
        assert result == await store.read(payments.find(of.id)) != before
        return result

    of = await create_payment(store)
    assert (await changed(of, cancel(of))).status is PaymentStatus.CANCELLED
    of = await create_payment(store)
    assert (await changed(of, payments.expire_due(AFTER_US, 9))).status is PaymentStatus.EXPIRED
    of = await create_processing_payment(store)
    # no erased data stays in memory
    assert (await changed(of, customers.erase(PAYER, [of.id]))).provider_icon is None
    of = await create_payment(store)
    assert await changed(of, deleted(of)) is None


async def test_a_change_that_fails_changes_nothing(store):
    of = await create_payment(store)
    assert await store.payments.find(of.id) == of
    with pytest.raises(ValueError, match="on purpose"):
        await store.write(cancel_and_fail(of))
    assert await store.payments.find(of.id) == of


async def test_payment_is_unchanged_until_its_change_is_committed(store, at):
    of, ran, looked = await create_payment(store), asyncio.Event(), threading.Event()
    assert await store.payments.find(of.id) == of
    at["op"], at["commit"] = ran.set, lambda: looked.wait(5)
    change = asyncio.ensure_future(store.write(cancel(of)))
    await ran.wait()
    # read twice, since the first read could have been cached
    for _ in range(2):
        assert await store.payments.find(of.id) == of
    looked.set()
    cancelled = await change
    assert await store.payments.find(of.id) == cancelled != of


async def test_failed_commit_leaves_the_payment_unchanged(store, at):
    of = await create_payment(store)

    def full():
        raise OSError("no space left")

    at["commit"] = full
    with pytest.raises(StoreError, match="no space"):
        await store.write(cancel(of))
    assert await store.payments.find(of.id) == of
    del at["commit"]
    cancelled = await store.write(cancel(of))
    assert await store.payments.find(of.id) == cancelled


async def test_concurrent_readers_see_the_stored_payments(store):
    """Many tasks change and read the same payments at once, in an order set by a seed."""
    chance = random.Random(SEED)
    created_payments = [await create_payment(store) for _ in range(PAYMENTS)]
    changes = (cancel, cancel_and_fail, lambda of: payments.expire((of.id,), AFTER_US))

    async def change_and_read():
        of = chance.choice(created_payments)
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            await asyncio.gather(store.write(chance.choice(changes)(of)), return_exceptions=True)
        # a thread commits, and can do so between the two; no other commit begins before an await
        cached, stored = await store.payments.find(of.id), await store.read(payments.find(of.id))
        assert cached == stored or await store.payments.find(of.id) == stored

    for _ in range(ROUNDS):
        await asyncio.gather(*(change_and_read() for _ in range(5)))
        created_payments[chance.randrange(PAYMENTS)] = await create_payment(store)


async def test_payment_changed_during_its_read_is_not_cached():
    of, cache = make_payment(), EntityCache()

    async def read(_op):
        if meanwhile:
            meanwhile.pop()()
        return of

    reader = EntityReader(read, PAYMENT_QUERIES, immediate_reads=8, cache=cache)
    meanwhile = [lambda: (cache.invalidate(of.id), cache.end_transaction())]
    assert await reader.find(of.id) == of
    assert len(cache) == 0
    meanwhile = [lambda: cache.invalidate(of.id)]
    for _ in range(2):
        assert await reader.find(of.id) == of
        assert len(cache) == 0
    cache.end_transaction()
    assert await reader.find(of.id) == of
    assert cache.find(of.id) is of


def test_cache_holds_at_most_its_capacity():
    cache, created_payments = EntityCache(capacity=3), [make_payment() for _ in range(5)]
    for payment in created_payments:
        cache.put(payment, cache.changes)
        cache.put(payment, cache.changes)
    assert [cache.find(each_payment.id) for each_payment in created_payments] == [
        None,
        None,
        *created_payments[2:],
    ]
    cache.invalidate(created_payments[3].id)
    assert len(cache) == 2
