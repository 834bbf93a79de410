"""Test events of refunds: after their payment's own events, in order, each change once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.features.webhooks.store import deliveries, replays
from florin_server.money.payments.store import payments, simulation
from florin_server.money.payouts.store import payouts
from florin_server.money.refunds import store as refunds

from tests.support.requested_data import REQUESTED_AMOUNT
from tests.support.store_factories import LATER_US, NOW_US, make_payment
from tests.support.store_refunds import POSTING, claims, deliver_events, ends, request_refund
from tests.support.webhook_rows import add_endpoint, claim_deliveries, record_delivered


async def paid(store):
    """Create a succeeded payment whose two events were delivered."""
    await add_endpoint(store)
    created = await store.write(payments.create(make_payment()))
    await store.write(
        simulation.simulate(
            created.id, PaymentStateEvent.SIMULATE_SUCCEEDED, REQUESTED_AMOUNT, NOW_US
        )
    )
    for _ in range(2):
        (delivery,) = await claim_deliveries(store)
        await record_delivered(store, delivery)
    return created


async def test_each_change_of_a_refund_follows_the_events_of_its_payment(shop):
    of = await paid(shop)
    await request_refund(shop, of)
    times = [LATER_US + n for n in range(1, 5)]
    await claims(shop, "0x1", times[0])
    await ends(shop, times[1], retry_at_us=times[1], problem="it failed")
    await claims(shop, "0x2", times[2])
    await ends(shop, times[3], tx_hash="0x2", posting=POSTING)
    events = await deliver_events(shop, times[3])
    assert [(place, kind) for place, kind, _ in events] == [
        (2, "refund.pending"),
        (3, "refund.processing"),
        (4, "refund.pending"),
        (5, "refund.processing"),
        (6, "refund.succeeded"),
    ]
    assert [(item.tx_id, item.completed_at_us) for _, _, item in events] == [
        (None, None),
        ("0x1", None),
        (None, None),
        ("0x2", None),
        ("0x2", times[3]),
    ]
    # the last event is the current state
    assert events[-1][2] == await shop.read(refunds.find_refund("rfnd_1"))
    assert (await shop.scan(deliveries.get_stats())).pending_count == 0


async def test_change_that_keeps_the_refund_status_is_no_event(shop):
    """A reorganization that brings another transaction, or one that proves nothing."""
    of = await paid(shop)
    await request_refund(shop, of)
    await claims(shop, "0x1", LATER_US)
    now = await shop.read(payouts.find("rfnd_1"))
    await ends(shop, LATER_US, tx_hash="0x1", problem="unclear")
    await shop.write(payouts.reopen(now, "0x9", LATER_US))
    assert (await shop.read(refunds.find_refund("rfnd_1"))).tx_id == "0x9"
    await ends(shop, LATER_US, tx_hash="0x9", posting=POSTING)
    done = await shop.read(payouts.find("rfnd_1"))
    await shop.write(payouts.reopen(done, "0xa", LATER_US + 1))
    again = await shop.read(payouts.find("rfnd_1"))
    assert again.tx_id == "0xa"
    await ends(shop, LATER_US + 2, tx_hash="0xa", posting=POSTING)
    kinds = [kind for _, kind, _ in await deliver_events(shop, LATER_US + 2)]
    assert kinds == ["refund.pending", "refund.processing", "refund.succeeded"]


async def test_refused_refund_is_reported_as_failed(shop):
    of = await paid(shop)
    await request_refund(shop, of)
    await shop.write(payouts.refuse("rfnd_1", LATER_US + 1))
    *_, (place, kind, back) = await deliver_events(shop, LATER_US + 1)
    assert (place, kind) == (3, "refund.failed")
    assert (back.completed_at_us, back.status) == (LATER_US + 1, RefundStatus.FAILED)


async def test_events_of_several_refunds_are_ordered_with_the_refunds_of_that_time(shop):
    of = await paid(shop)
    await request_refund(shop, of, value=2)
    await request_refund(shop, of, "rfnd_2", value=3)
    await claims(shop, "0x2", LATER_US + 1, "rfnd_2")
    await claims(shop, "0x1", LATER_US + 2)
    await ends(shop, LATER_US + 3, "rfnd_2", tx_hash="0x2", posting=POSTING)
    events = await deliver_events(shop, LATER_US + 3, every=True)
    assert [
        (item.place, item.event_type, changed.id, [(r.id, str(r.status)) for r in item.refunds])
        for item, changed in events
    ] == [
        (2, "refund.pending", "rfnd_1", [("rfnd_1", "pending")]),
        (3, "refund.pending", "rfnd_2", [("rfnd_1", "pending"), ("rfnd_2", "pending")]),
        (4, "refund.processing", "rfnd_2", [("rfnd_1", "pending"), ("rfnd_2", "processing")]),
        (5, "refund.processing", "rfnd_1", [("rfnd_1", "processing"), ("rfnd_2", "processing")]),
        (6, "refund.succeeded", "rfnd_2", [("rfnd_1", "processing"), ("rfnd_2", "succeeded")]),
    ]
    assert await shop.read(refunds.list_refunds(of.id)) == list(events[-1][0].refunds)
    # replayed from the middle, each event lists the refunds of its time
    assert await shop.write(replays.replay_payment("whe_001", of.id, 4, LATER_US)) == 6
    again = await deliver_events(shop, LATER_US + 3, every=True)
    assert again == events[2:]


async def test_earlier_payment_events_are_sent_without_the_refund(shop):
    of = await paid(shop)
    await request_refund(shop, of)
    await deliver_events(shop, LATER_US)
    assert await shop.write(replays.replay_payment("whe_001", of.id, 1, LATER_US)) == 2
    events = await deliver_events(shop, LATER_US)
    assert [(place, kind, back is None) for place, kind, back in events] == [
        (1, "payment.succeeded", True),
        (2, "refund.pending", False),
    ]
    # a replay from a future position delivers the newest event
    await shop.write(replays.replay_payment("whe_001", of.id, 99, LATER_US))
    assert [place for place, _, _ in await deliver_events(shop, LATER_US)] == [2]


async def test_nothing_happens_to_a_payment_that_is_over(shop):
    """The refund's events continue after the payment's last version."""
    of = await paid(shop)
    existing = await shop.payments.find(of.id)
    for event in ("simulate_failed", "simulate_expired", "cancel"):
        with pytest.raises(Exception, match="cannot be"):
            await shop.write(
                simulation.simulate(of.id, PaymentStateEvent(event), REQUESTED_AMOUNT, LATER_US)
            )
    later = await shop.write(
        simulation.simulate(of.id, PaymentStateEvent.SIMULATE_SUCCEEDED, REQUESTED_AMOUNT, LATER_US)
    )
    assert later == existing == replace(existing, version=1)
