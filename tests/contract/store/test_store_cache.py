"""Payments that were read before are not read again, and are never other than what is committed."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from florin_server.domain.payments.payment import CancelledReason, Status
from florin_server.store.accounts import customers
from florin_server.store.engine.query import Query, Statement, StoreError, operation
from florin_server.store.payments import payments
from florin_server.store.payments.cache import PaymentCache
from florin_server.store.payments.reader import PaymentReader
from florin_server.store.tables.tables import payment as table
from florin_server.store.tables.tables import payment_event
from sqlalchemy import delete

from tests.support.postgres import SQLITE
from tests.support.store_kit import (
    AFTER_US,
    LATER_US,
    PAYER,
    accepted,
    beside,
    created,
    opened,
    payment,
)

ROUNDS, PAYMENTS, SEED = 300, 12, 7


@pytest.fixture
def at():
    """What the store does first at one of its durable steps."""
    return {}


@pytest.fixture
async def store(tmp_path, at):
    async with opened(SQLITE, tmp_path, fault=lambda step: at.get(step, int)()) as store:
        yield store


def cancel(of):
    return payments.cancel(of.id, CancelledReason.BY_USER, LATER_US)


@operation
def cancel_and_fail(of):
    yield from cancel(of)
    raise ValueError("on purpose")


@operation
def deleted(of):
    yield Query(Statement(delete(payment_event).where(payment_event.c.payment_id == of.id)), {})
    yield Query(Statement(delete(table).where(table.c.id == of.id)), {})


async def test_what_was_read_is_not_read_again(store, tmp_path):
    of, changed, other = [await created(store) for _ in range(3)]
    changed = await store.write(cancel(changed))
    for one in (of, changed):
        assert await store.reader.payment(one.id) == one
    await beside(store, tmp_path, "UPDATE payment SET reference_id = 'past the store'")
    for one in (of, changed):
        assert await store.reader.payment(one.id) == one
    assert (await store.reader.payment(other.id)).reference_id == "past the store"


async def test_who_may_not_see_it_waits_as_for_one_that_never_was(store, tmp_path):
    of = await created(store)
    await store.reader.payment(of.id)
    await beside(store, tmp_path, "UPDATE payment SET reference_id = 'past the store'")
    read = await store.reader.payment(of.id, lambda _: False)
    assert read.reference_id == "past the store"


async def test_whatever_changes_a_payment_is_seen_at_once(store):
    async def changed(of, op):
        before = await store.reader.payment(of.id)
        await store.write(op)
        found = await store.reader.payment(of.id)
        assert found == await store.read(payments.one(of.id)) != before
        return found

    of = await created(store)
    assert (await changed(of, cancel(of))).status is Status.CANCELLED
    of = await created(store)
    assert (await changed(of, payments.expire_due(AFTER_US, 9))).status is Status.EXPIRED
    of = await accepted(store)
    # nothing that was erased stays in memory
    assert (await changed(of, customers.erase(PAYER, [of.id]))).provider_icon is None
    of = await created(store)
    assert await changed(of, deleted(of)) is None


async def test_a_change_that_fails_changes_nothing(store):
    of = await created(store)
    assert await store.reader.payment(of.id) == of
    with pytest.raises(ValueError, match="on purpose"):
        await store.write(cancel_and_fail(of))
    assert await store.reader.payment(of.id) == of


async def test_a_payment_is_what_it_was_until_its_change_is_committed(store, at):
    of, ran, looked = await created(store), asyncio.Event(), threading.Event()
    assert await store.reader.payment(of.id) == of
    at["op"], at["commit"] = ran.set, lambda: looked.wait(5)
    change = asyncio.ensure_future(store.write(cancel(of)))
    await ran.wait()
    # read twice, as the first one could have been kept
    for _ in range(2):
        assert await store.reader.payment(of.id) == of
    looked.set()
    cancelled = await change
    assert await store.reader.payment(of.id) == cancelled != of


async def test_a_commit_that_fails_leaves_what_was(store, at):
    of = await created(store)

    def full():
        raise OSError("no space left")

    at["commit"] = full
    with pytest.raises(StoreError, match="no space"):
        await store.write(cancel(of))
    assert await store.reader.payment(of.id) == of
    del at["commit"]
    cancelled = await store.write(cancel(of))
    assert await store.reader.payment(of.id) == cancelled


async def test_readers_in_between_see_what_the_store_has(store):
    """Many at once change and read the same payments, in an order that a seed tells."""
    chance = random.Random(SEED)
    made = [await created(store) for _ in range(PAYMENTS)]
    changes = (cancel, cancel_and_fail, lambda of: payments.expire((of.id,), AFTER_US))

    async def one():
        of = chance.choice(made)
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            await asyncio.gather(store.write(chance.choice(changes)(of)), return_exceptions=True)
        # neither waits, so that nothing is committed between the two
        assert await store.reader.payment(of.id) == await store.read(payments.one(of.id))

    for _ in range(ROUNDS):
        await asyncio.gather(*(one() for _ in range(5)))
        made[chance.randrange(PAYMENTS)] = await created(store)


async def test_what_changed_while_it_was_read_is_not_kept():
    of, cache = payment(), PaymentCache()

    async def read(_op):
        if meanwhile:
            meanwhile.pop()()
        return of

    reader = PaymentReader(read, at_once=8, cache=cache)
    meanwhile = [lambda: (cache.changed(of.id), cache.settled())]
    assert await reader.payment(of.id) == of
    assert len(cache) == 0
    meanwhile = [lambda: cache.changed(of.id)]
    for _ in range(2):
        assert await reader.payment(of.id) == of
        assert len(cache) == 0
    cache.settled()
    assert await reader.payment(of.id) == of
    assert cache.get(of.id) is of


def test_as_many_are_kept_as_there_is_room_for():
    cache, made = PaymentCache(most=3), [payment() for _ in range(5)]
    for one in made:
        cache.keep(one, cache.changes)
        cache.keep(one, cache.changes)
    assert [cache.get(one.id) for one in made] == [None, None, *made[2:]]
    cache.changed(made[3].id)
    assert len(cache) == 2
