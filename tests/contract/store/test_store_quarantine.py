"""Items that were set aside: bounded, kept over restarts, given back by the operator alone."""

from __future__ import annotations

import logging
import os

import pytest
from florin_server.clock import TestClock
from florin_server.domain.quarantine import (
    REASON_MAX,
    SUBJECT_MAX,
    ItemKind,
    ItemState,
    QuarantinedItem,
    describe_error,
)
from florin_server.flows.quarantine.quarantine import (
    LOGGED_A_MINUTE,
    Quarantine,
    by_chain,
    is_unexpected,
)
from florin_server.hints import Hints
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreError, StoreUnavailable
from florin_server.store.ledger.ledger import NotBooked
from florin_server.store.quarantine import items
from florin_server.store.settlement.chain_txs import NotWaiting

from tests.support.store_kit import CHAIN, NOW_US


def item(n: int, **changes) -> QuarantinedItem:
    made = {
        "id": f"qitm_{n:05}",
        "kind": ItemKind.PAYMENT,
        "chain_id": CHAIN,
        "subject": f"pay_{n:05}",
        "step": "conclude",
        "reason": "ValueError: no",
        "state": ItemState.SET_ASIDE,
        "attempts": 1,
        "first_at_us": NOW_US + n,
        "last_at_us": NOW_US + n,
    }
    return QuarantinedItem(**{**made, **changes})


def quarantine(store, clock=None) -> Quarantine:
    return Quarantine(store, clock or TestClock(NOW_US), os.urandom, Hints())


async def test_item_that_fails_again_is_one_row_with_its_newest_error(store):
    await store.write(items.put(item(1)))
    await store.write(items.move("qitm_00001", ItemState.RETRIED, None))
    assert await store.read(items.left_out()) == frozenset()
    assert await store.read(items.retried(ItemKind.PAYMENT, CHAIN)) == ["pay_00001"]
    again = item(2, subject="pay_00001", reason="KeyError: x")
    assert await store.write(items.put(again))
    (found,) = await store.read(items.listed(10, all_=False))
    assert (found.id, found.attempts, found.reason) == ("qitm_00001", 2, "KeyError: x")
    assert (found.first_at_us, found.last_at_us) == (NOW_US + 1, NOW_US + 2)
    assert by_chain(await store.read(items.counts())) == {
        CHAIN: "set aside after an unexpected error: 1 payment: see `florin quarantine list`"
    }


async def test_resolved_item_stays_left_out_without_an_alarm(store):
    await store.write(items.put(item(1)))
    await store.write(items.move("qitm_00001", ItemState.RESOLVED, "paid by hand"))
    assert len(await store.read(items.left_out())) == 1
    await store.write(items.put(item(2, subject="pay_00001")))
    (found,) = await store.read(items.listed(10, all_=True))
    assert (found.state, found.note) == (ItemState.RESOLVED, "paid by hand")
    assert await store.read(items.counts()) == []


async def test_rows_are_bounded_and_closed_ones_make_room(store, monkeypatch):
    monkeypatch.setattr(items, "ITEMS_MAX", 5)
    for n in range(5):
        assert await store.write(items.put(item(n)))
    assert not await store.write(items.put(item(5)))
    assert len(await store.read(items.listed(100, all_=True))) == 5
    await store.write(items.move("qitm_00002", ItemState.RETRIED, None))
    assert await store.write(items.put(item(5)))
    subjects = {one.subject for one in await store.read(items.listed(100, all_=True))}
    assert "pay_00002" not in subjects
    assert "pay_00005" in subjects


async def test_forgetting_keeps_what_waits_for_the_operator(store):
    for n in range(3):
        await store.write(items.put(item(n)))
    await store.write(items.move("qitm_00001", ItemState.RETRIED, None))
    assert await store.write(items.forget(NOW_US + 100, 10)) == 1
    assert len(await store.read(items.listed(10, all_=True))) == 2


async def test_many_items_flood_neither_log_nor_rows(store, caplog):
    made = quarantine(store)
    with caplog.at_level(logging.ERROR):
        for n in range(3 * LOGGED_A_MINUTE):
            long = ValueError("\x1b[2J\u202e" + "x" * 10_000)
            await made.set_aside(ItemKind.EVENT, CHAIN, f"{n}/" + "y" * 10_000, "judge", long)
    assert len(caplog.records) == LOGGED_A_MINUTE + 1
    for one in await store.read(items.listed(100, all_=True)):
        assert len(one.reason) <= REASON_MAX
        assert len(one.subject) <= SUBJECT_MAX
        assert one.reason.isprintable()
    assert made.holds(ItemKind.EVENT, CHAIN, "1/" + "y" * 10_000)


async def test_another_process_leaves_out_what_was_set_aside(store):
    first, second = quarantine(store), quarantine(store)
    await second.load()
    await first.set_aside(ItemKind.PAYMENT, CHAIN, "pay_1", "submit", ValueError("no"))
    await second.reload()
    assert second.holds(ItemKind.PAYMENT, CHAIN, "pay_1")
    assert not second.holds(ItemKind.PAYOUT, CHAIN, "pay_1")
    (found,) = await store.read(items.listed(10, all_=False))
    await store.write(items.move(found.id, ItemState.RETRIED, None))
    before = second.generation
    await second.reload()
    assert second.generation == before + 1
    assert not second.holds(ItemKind.PAYMENT, CHAIN, "pay_1")


async def test_item_that_cannot_be_written_is_left_out_in_memory_and_written_later(
    store, monkeypatch
):
    made = quarantine(store)

    def breaks(_):
        raise RuntimeError("the table is gone")

    with monkeypatch.context() as broken:
        broken.setattr(items, "put", breaks)
        await made.set_aside(ItemKind.PAYMENT, CHAIN, "pay_1", "submit", ValueError("no"))
        assert made.holds(ItemKind.PAYMENT, CHAIN, "pay_1")
        assert await store.read(items.left_out()) == frozenset()
    await made.flush()
    assert len(await store.read(items.left_out())) == 1


async def test_batch_that_fails_is_done_item_by_item(store):
    made, done = quarantine(store), []

    async def work(part):
        if "b" in part:
            raise KeyError("b")
        done.extend(part)
        return len(part)

    found = await made.each(ItemKind.PAYMENT, CHAIN, ["a", "b", "c"], str, "submit", work)
    assert (found, done) == ([1, 1], ["a", "c"])
    assert made.holds(ItemKind.PAYMENT, CHAIN, "b")
    assert not made.holds(ItemKind.PAYMENT, CHAIN, "a")


@pytest.mark.parametrize("error", [RailUnavailable("no"), StoreUnavailable("no"), NotWaiting("no")])
async def test_states_of_the_world_set_nothing_aside(store, error):
    made = quarantine(store)
    with pytest.raises(type(error)):
        async with made.isolating(ItemKind.PAYMENT, CHAIN, "pay_1", "submit"):
            raise error
    assert await store.read(items.left_out()) == frozenset()


def test_what_the_engine_refuses_is_unexpected():
    assert is_unexpected(StoreError("value too long"))
    assert is_unexpected(NotBooked("x"))
    assert is_unexpected(AssertionError())
    assert not is_unexpected(NotWaiting("x"))
    assert describe_error(ValueError("a\nb")) == "ValueError: a b"
