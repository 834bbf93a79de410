"""Test quarantined items: bounded, kept over restarts, released by the operator alone."""

from __future__ import annotations

import logging
import os

import pytest
from florin_server.app.app import build_notifier
from florin_server.base.clock import TestClock
from florin_server.base.meters import Meters
from florin_server.db.engine.query import StoreError, StoreUnavailable
from florin_server.domain.quarantine import (
    REASON_MAX,
    SUBJECT_MAX,
    QuarantinedItem,
    QuarantinedItemKind,
    QuarantinedItemState,
    format_error,
)
from florin_server.money.ledger.store.ledger import JournalNotBooked
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable
from florin_server.operations.service.quarantine import (
    LOGGED_PER_MINUTE,
    Quarantine,
    describe_by_chain,
    is_unexpected,
)
from florin_server.operations.store import quarantine as items
from florin_server.rails.types import RailUnavailable

from tests.support.store_factories import CHAIN, NOW_US


def item(n: int, **changes) -> QuarantinedItem:
    created = {
        "id": f"qitm_{n:05}",
        "kind": QuarantinedItemKind.PAYMENT,
        "chain_id": CHAIN,
        "subject": f"pay_{n:05}",
        "step": "conclude",
        "reason": "ValueError: no",
        "state": QuarantinedItemState.SET_ASIDE,
        "attempts": 1,
        "first_at_us": NOW_US + n,
        "last_at_us": NOW_US + n,
    }
    return QuarantinedItem(**{**created, **changes})


def quarantine(store, clock=None) -> Quarantine:
    clock = clock or TestClock(NOW_US)
    return Quarantine(store, clock, os.urandom, build_notifier(store, clock, Meters()))


async def test_requarantined_item_keeps_a_single_row_with_its_newest_error(store):
    await store.write(items.put(item(1)))
    await store.write(items.move("qitm_00001", QuarantinedItemState.RETRIED, None))
    assert await store.read(items.list_excluded()) == frozenset()
    assert await store.read(items.list_retried(QuarantinedItemKind.PAYMENT, CHAIN)) == ["pay_00001"]
    again = item(2, subject="pay_00001", reason="KeyError: x")
    assert await store.write(items.put(again))
    (result,) = await store.read(items.list_items(10, include_closed=False))
    assert (result.id, result.attempts, result.reason) == ("qitm_00001", 2, "KeyError: x")
    assert (result.first_at_us, result.last_at_us) == (NOW_US + 1, NOW_US + 2)
    assert describe_by_chain(await store.read(items.count_open())) == {
        CHAIN: "quarantined after an unexpected error: 1 payment: see `florin quarantine list`"
    }


async def test_resolved_item_stays_left_out_without_an_alarm(store):
    await store.write(items.put(item(1)))
    await store.write(items.move("qitm_00001", QuarantinedItemState.RESOLVED, "paid by hand"))
    assert len(await store.read(items.list_excluded())) == 1
    await store.write(items.put(item(2, subject="pay_00001")))
    (result,) = await store.read(items.list_items(10, include_closed=True))
    assert (result.state, result.note) == (QuarantinedItemState.RESOLVED, "paid by hand")
    assert await store.read(items.count_open()) == []


async def test_rows_are_bounded_and_closed_ones_make_room(store, monkeypatch):
    monkeypatch.setattr(items, "ITEMS_MAX", 5)
    for n in range(5):
        assert await store.write(items.put(item(n)))
    assert not await store.write(items.put(item(5)))
    assert len(await store.read(items.list_items(100, include_closed=True))) == 5
    await store.write(items.move("qitm_00002", QuarantinedItemState.RETRIED, None))
    assert await store.write(items.put(item(5)))
    subjects = {
        each_item.subject
        for each_item in await store.read(items.list_items(100, include_closed=True))
    }
    assert "pay_00002" not in subjects
    assert "pay_00005" in subjects


async def test_forget_keeps_items_that_wait_for_the_operator(store):
    for n in range(3):
        await store.write(items.put(item(n)))
    await store.write(items.move("qitm_00001", QuarantinedItemState.RETRIED, None))
    assert await store.write(items.forget(NOW_US + 100, 10)) == 1
    assert len(await store.read(items.list_items(10, include_closed=True))) == 2


async def test_many_items_flood_neither_log_nor_rows(store, caplog):
    created_quarantine = quarantine(store)
    with caplog.at_level(logging.ERROR):
        for n in range(3 * LOGGED_PER_MINUTE):
            long = ValueError("\x1b[2J\u202e" + "x" * 10_000)
            await created_quarantine.add(
                QuarantinedItemKind.EVENT, CHAIN, f"{n}/" + "y" * 10_000, "check the event", long
            )
    assert len(caplog.records) == LOGGED_PER_MINUTE + 1
    for each_item in await store.read(items.list_items(100, include_closed=True)):
        assert len(each_item.reason) <= REASON_MAX
        assert len(each_item.subject) <= SUBJECT_MAX
        assert each_item.reason.isprintable()
    assert created_quarantine.contains(QuarantinedItemKind.EVENT, CHAIN, "1/" + "y" * 10_000)


async def test_quarantined_item_is_skipped_by_another_process(store):
    first, second = quarantine(store), quarantine(store)
    await second.load()
    await first.add(QuarantinedItemKind.PAYMENT, CHAIN, "pay_1", "submit", ValueError("no"))
    await second.reload()
    assert second.contains(QuarantinedItemKind.PAYMENT, CHAIN, "pay_1")
    assert not second.contains(QuarantinedItemKind.PAYOUT, CHAIN, "pay_1")
    (result,) = await store.read(items.list_items(10, include_closed=False))
    await store.write(items.move(result.id, QuarantinedItemState.RETRIED, None))
    before = second.version
    await second.reload()
    assert second.version == before + 1
    assert not second.contains(QuarantinedItemKind.PAYMENT, CHAIN, "pay_1")


async def test_item_that_cannot_be_written_is_left_out_in_memory_and_written_later(
    store, monkeypatch
):
    created_quarantine = quarantine(store)

    def breaks(_):
        raise RuntimeError("the table is gone")

    with monkeypatch.context() as broken:
        broken.setattr(items, "put", breaks)
        await created_quarantine.add(
            QuarantinedItemKind.PAYMENT, CHAIN, "pay_1", "submit", ValueError("no")
        )
        assert created_quarantine.contains(QuarantinedItemKind.PAYMENT, CHAIN, "pay_1")
        assert await store.read(items.list_excluded()) == frozenset()
    await created_quarantine.flush()
    assert len(await store.read(items.list_excluded())) == 1


async def test_batch_that_fails_is_done_item_by_item(store):
    created_quarantine, done = quarantine(store), []

    async def work(part):
        if "b" in part:
            raise KeyError("b")
        done.extend(part)
        return len(part)

    results = await created_quarantine.run_each(
        QuarantinedItemKind.PAYMENT, CHAIN, ["a", "b", "c"], str, "submit", work
    )
    assert (results, done) == ([1, 1], ["a", "c"])
    assert created_quarantine.contains(QuarantinedItemKind.PAYMENT, CHAIN, "b")
    assert not created_quarantine.contains(QuarantinedItemKind.PAYMENT, CHAIN, "a")


@pytest.mark.parametrize(
    "error", [RailUnavailable("no"), StoreUnavailable("no"), ItemsUnavailable("no")]
)
async def test_states_of_the_world_set_nothing_aside(store, error):
    created_quarantine = quarantine(store)
    with pytest.raises(type(error)):
        async with created_quarantine.isolate(
            QuarantinedItemKind.PAYMENT, CHAIN, "pay_1", "submit"
        ):
            raise error
    assert await store.read(items.list_excluded()) == frozenset()


def test_engine_error_is_unexpected():
    assert is_unexpected(StoreError("value too long"))
    assert is_unexpected(JournalNotBooked("x"))
    assert is_unexpected(AssertionError())
    assert not is_unexpected(ItemsUnavailable("x"))
    assert format_error(ValueError("a\nb")) == "ValueError: a b"
