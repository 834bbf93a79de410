"""Test that final payouts settle the oldest payments they cover, once each and to the unit."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.db.engine.query import operation
from florin_server.domain.payments.payment import Refund, RefundStatus
from florin_server.domain.payouts.payout import PayoutKind
from florin_server.features.webhooks.store import deliveries, replays
from florin_server.features.webhooks.store.replays import ReplayPosition, ReplayRequest
from florin_server.money.ledger.store import ledger
from florin_server.money.outbox.store import events
from florin_server.money.payouts.store import covered, payouts
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import payment_outcomes

from tests.support.store_covered import ends, leaves, marked, owed
from tests.support.store_factories import (
    ASSET,
    LATER_US,
    PAYER,
    create_chain_tx,
    create_processing_payment,
    make_success,
)
from tests.support.webhook_rows import add_endpoint, claim_deliveries


async def paid_out(store, payout_id, value, at_us=LATER_US + 1):
    await leaves(store, payout_id, value)
    await ends(store, payout_id, at_us)
    return await marked(store)


async def settlements(store, *of):
    """Return value and transaction of each payment's settlement, or None if it is not settled."""
    results = []
    for item in of:
        existing = [
            event.settlement
            for event in await store.read(events.list_events(item))
            if event.settlement is not None
        ]
        assert len(existing) <= 1
        results.append((existing[0].value, existing[0].tx_id) if existing else None)
    return results


async def test_a_payout_settles_the_oldest_payments_that_it_covers(shop):
    first, second, third = [await owed(shop, value, LATER_US + value) for value in (10, 20, 30)]
    assert await paid_out(shop, "pout_1", 30) == 2
    assert await settlements(shop, first, second, third) == [
        (10, "0xpout_1"),
        (20, "0xpout_1"),
        None,
    ]
    # in parts: the part that completes it settles it
    assert await paid_out(shop, "pout_2", 29) == 0
    assert await settlements(shop, third) == [None]
    assert await paid_out(shop, "pout_3", 1) == 1
    assert await settlements(shop, third) == [(30, "0xpout_3")]


async def test_younger_payment_never_overtakes_an_older_payment(shop):
    old, young = await owed(shop, 50), await owed(shop, 1, LATER_US + 5)
    assert await paid_out(shop, "pout_1", 49) == 0
    assert await settlements(shop, old, young) == [None, None]
    assert await paid_out(shop, "pout_2", 2) == 2


async def test_two_final_payouts_each_settle_the_payments_they_cover(shop):
    first, second = await owed(shop, 10), await owed(shop, 20, LATER_US + 1)
    for n, value in enumerate((10, 20)):
        await leaves(shop, f"pout_{n}", value)
    for n in range(2):
        await ends(shop, f"pout_{n}", LATER_US + 2 + n)
    assert await marked(shop) == 2
    assert await settlements(shop, first, second) == [(10, "0xpout_0"), (20, "0xpout_1")]


async def test_payouts_on_their_way_settle_nothing(shop):
    of = await owed(shop, 10)
    await leaves(shop, "pout_1", 10)
    assert not await shop.read(covered.has_payouts())
    assert await marked(shop) == 0
    await ends(shop, "pout_1", LATER_US + 1)
    assert await shop.read(covered.has_payouts())
    # a crash here loses nothing: the payments to mark are in the store
    assert await marked(shop) == 1
    assert await settlements(shop, of) == [(10, "0xpout_1")]


async def test_a_payout_that_is_final_again_settles_nothing_twice(shop):
    """A reorganization undid it, before or after its payments were marked."""
    first, second = await owed(shop, 10), await owed(shop, 10, LATER_US + 1)
    assert await paid_out(shop, "pout_1", 10) == 1
    done = await shop.read(payouts.find("pout_1"))
    await shop.write(payouts.reopen(done, "0xpout_1", LATER_US + 2))
    await ends(shop, "pout_1", LATER_US + 3)
    assert await marked(shop) == 0
    assert await settlements(shop, first, second) == [(10, "0xpout_1"), None]
    await leaves(shop, "pout_2", 10)
    await ends(shop, "pout_2", LATER_US + 4)
    gone = await shop.read(payouts.find("pout_2"))
    await shop.write(payouts.reopen(gone, "0xpout_2", LATER_US + 5))
    assert await marked(shop) == 0
    await ends(shop, "pout_2", LATER_US + 6)
    assert await marked(shop) == 1


async def test_a_payment_that_a_reorganization_undid_is_not_covered(shop):
    undone, stored = await owed(shop, 10), await owed(shop, 10, LATER_US + 1)
    await shop.write(ledger.reverse(f"settle:{undone.id}", LATER_US + 2))
    assert await paid_out(shop, "pout_1", 10) == 1
    assert await settlements(shop, undone, stored) == [None, (10, "0xpout_1")]
    await shop.write(ledger.post_reversed_again(f"settle:{undone.id}", LATER_US + 3))
    assert await paid_out(shop, "pout_2", 10) == 1
    assert await settlements(shop, undone) == [(10, "0xpout_2")]


async def refunding(store, of, value):
    back = Refund("rfnd_1", of.id, f"caip19/{ASSET}", value, PAYER, RefundStatus.PENDING, None, 9)

    @operation
    def create():
        yield from refunds.lock(of.id)
        yield from refunds.create(back)

    await store.write(create())


@pytest.mark.parametrize("is_final", [True, False])
async def test_refund_to_a_buyer_counts_as_received_by_the_merchant(shop, is_final):
    """The merchant pays its own share of refunds, final before the payout or not."""
    first, second = await owed(shop, 10), await owed(shop, 10, LATER_US + 1)
    await refunding(shop, first, 10)
    await leaves(shop, "rfnd_1", 10, PayoutKind.REFUND, first.id)
    if is_final:
        await ends(shop, "rfnd_1", LATER_US + 1)
    assert await paid_out(shop, "pout_1", 10, LATER_US + 2) == 2
    assert await settlements(shop, first, second) == [(10, "0xpout_1")] * 2


async def test_a_settlement_has_its_place_among_events_of_refunds(shop):
    of = await owed(shop, 10)
    await refunding(shop, of, 3)
    await leaves(shop, "rfnd_1", 3, PayoutKind.REFUND, of.id)
    await paid_out(shop, "pout_1", 7)
    await ends(shop, "rfnd_1", LATER_US + 9)
    history = await shop.read(events.list_events(of))
    assert [(event.place, event.event_type) for event in history] == [
        (0, "payment.created"),
        (1, "payment.processing"),
        (2, "payment.succeeded"),
        (3, "refund.pending"),
        (4, "refund.processing"),
        (5, "payment.settled"),
        (6, "refund.succeeded"),
    ]


async def test_settlement_event_is_queued_and_listed_by_its_time(shop):
    endpoint = await add_endpoint(shop)
    of = await owed(shop, 10)
    (first,) = await claim_deliveries(shop, LATER_US)
    await shop.write(deliveries.record_delivered(first, 2, LATER_US, None, 1))
    assert await claim_deliveries(shop, LATER_US) == []
    at_us = LATER_US + 1_000
    await paid_out(shop, "pout_1", 10, at_us)
    (delivery,) = await claim_deliveries(shop, at_us)
    work = await shop.read(deliveries.find_delivery_data(delivery, at_us))
    assert [event.event_type for event in work.pending_events] == ["payment.settled"]
    await shop.write(deliveries.record_delivered(delivery, 3, at_us, None, 1))
    # the payment itself is older than the range of the search
    request = ReplayRequest(at_us, frozenset({"payment.settled"}), f"{of.id}~", is_filtered=True)
    place, count = ReplayPosition(request.oldest_payment_id), 0
    while place is not None:
        result, place = await shop.write(replays.replay_page(endpoint, request, place, at_us))
        count += result
    assert count == 1
    (again,) = await claim_deliveries(shop, at_us)
    work = await shop.read(deliveries.find_delivery_data(again, at_us))
    assert [event.place for event in work.pending_events] == [3]


async def test_a_success_with_the_money_at_the_merchant_is_settled_at_once(shop):
    await add_endpoint(shop)
    of = await create_processing_payment(shop)
    await create_chain_tx(shop, of)
    (ended,) = await shop.write(payment_outcomes.finalize([make_success(of)], [], LATER_US))
    assert await settlements(shop, ended) == [(50_000_000, "0xpaid")]
    (delivery,) = await claim_deliveries(shop, LATER_US)
    work = await shop.read(deliveries.find_delivery_data(delivery, LATER_US))
    assert [(event.place, event.event_type) for event in work.pending_events] == [
        (0, "payment.created"),
        (1, "payment.processing"),
        (2, "payment.succeeded"),
        (3, "payment.settled"),
    ]


async def test_pages_and_processes_share_the_work(shop, monkeypatch):
    monkeypatch.setattr(covered, "PAGE", 3)
    created = [await owed(shop, 1, LATER_US + n) for n in range(8)]
    await leaves(shop, "pout_1", 7)
    await ends(shop, "pout_1", LATER_US + 20)
    assert sum(await asyncio.gather(*(marked(shop) for _ in range(3)))) == 7
    assert (await settlements(shop, *created)).count(None) == 1
    assert (await settlements(shop, created[-1])) == [None]
