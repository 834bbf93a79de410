"""Refunds are told of: after their payment's own events, in order, each change once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payments.state import Event
from florin_server.store.payments import payments, simulation
from florin_server.store.payouts import payouts, refunds
from florin_server.store.webhooks import deliveries, replays

from tests.support.hooked import added, claim, tell
from tests.support.store_asked import ASKED
from tests.support.store_kit import LATER_US, NOW_US, payment
from tests.support.store_refunds import POSTING, asked_for, claims, ends, told


async def paid(store):
    """A payment that succeeded, whose two events were told."""
    await added(store)
    made = await store.write(payments.create(payment()))
    await store.write(simulation.simulate(made.id, Event.SIMULATE_SUCCEEDED, ASKED, NOW_US))
    for _ in range(2):
        (one,) = await claim(store)
        await tell(store, one)
    return made


async def test_each_change_of_a_refund_follows_the_events_of_its_payment(shop):
    of = await paid(shop)
    await asked_for(shop, of)
    times = [LATER_US + n for n in range(1, 5)]
    await claims(shop, "0x1", times[0])
    await ends(shop, times[1], retry_at_us=times[1], problem="it failed")
    await claims(shop, "0x2", times[2])
    await ends(shop, times[3], tx_id="0x2", posting=POSTING)
    events = await told(shop, times[3])
    assert [(place, kind) for place, kind, _ in events] == [
        (2, "refund.pending"),
        (3, "refund.processing"),
        (4, "refund.pending"),
        (5, "refund.processing"),
        (6, "refund.succeeded"),
    ]
    assert [(one.tx_id, one.completed_at_us) for _, _, one in events] == [
        (None, None),
        ("0x1", None),
        (None, None),
        ("0x2", None),
        ("0x2", times[3]),
    ]
    # the last of them is what is asked for
    assert events[-1][2] == await shop.read(refunds.find_refund("rfnd_1"))
    assert (await shop.survey(deliveries.figures())).waiting == 0


async def test_what_does_not_change_where_a_refund_stands_is_no_event(shop):
    """A reorganisation that brings another transaction, or one that proves nothing."""
    of = await paid(shop)
    await asked_for(shop, of)
    await claims(shop, "0x1", LATER_US)
    now = await shop.read(payouts.get("rfnd_1"))
    await ends(shop, LATER_US, tx_id="0x1", problem="unclear")
    await shop.write(payouts.reopen(now, "0x9", LATER_US))
    assert (await shop.read(refunds.find_refund("rfnd_1"))).tx_id == "0x9"
    await ends(shop, LATER_US, tx_id="0x9", posting=POSTING)
    done = await shop.read(payouts.get("rfnd_1"))
    await shop.write(payouts.reopen(done, "0xa", LATER_US + 1))
    again = await shop.read(payouts.get("rfnd_1"))
    assert again.tx_id == "0xa"
    await ends(shop, LATER_US + 2, tx_id="0xa", posting=POSTING)
    kinds = [kind for _, kind, _ in await told(shop, LATER_US + 2)]
    assert kinds == ["refund.pending", "refund.processing", "refund.succeeded"]


async def test_a_refund_that_is_called_off_is_told_as_failed(shop):
    of = await paid(shop)
    await asked_for(shop, of)
    await shop.write(payouts.refuse("rfnd_1", LATER_US + 1))
    *_, (place, kind, back) = await told(shop, LATER_US + 1)
    assert (place, kind) == (3, "refund.failed")
    assert (back.completed_at_us, back.status) == (LATER_US + 1, RefundStatus.FAILED)


async def test_changes_of_several_refunds_have_one_order_and_list_all_refunds_of_then(shop):
    of = await paid(shop)
    await asked_for(shop, of, value=2)
    await asked_for(shop, of, "rfnd_2", value=3)
    await claims(shop, "0x2", LATER_US + 1, "rfnd_2")
    await claims(shop, "0x1", LATER_US + 2)
    await ends(shop, LATER_US + 3, "rfnd_2", tx_id="0x2", posting=POSTING)
    events = await told(shop, LATER_US + 3, every=True)
    assert [
        (one.place, one.event_type, changed.id, [(r.id, str(r.status)) for r in one.refunds])
        for one, changed in events
    ] == [
        (2, "refund.pending", "rfnd_1", [("rfnd_1", "pending")]),
        (3, "refund.pending", "rfnd_2", [("rfnd_1", "pending"), ("rfnd_2", "pending")]),
        (4, "refund.processing", "rfnd_2", [("rfnd_1", "pending"), ("rfnd_2", "processing")]),
        (5, "refund.processing", "rfnd_1", [("rfnd_1", "processing"), ("rfnd_2", "processing")]),
        (6, "refund.succeeded", "rfnd_2", [("rfnd_1", "processing"), ("rfnd_2", "succeeded")]),
    ]
    assert await shop.read(refunds.list_refunds(of.id)) == list(events[-1][0].refunds)
    # replayed from the middle, each event lists what there was then
    assert await shop.write(replays.one("whe_001", of.id, 4, LATER_US)) == 6
    again = await told(shop, LATER_US + 3, every=True)
    assert again == events[2:]


async def test_what_a_payment_went_through_is_told_without_its_refund(shop):
    of = await paid(shop)
    await asked_for(shop, of)
    await told(shop, LATER_US)
    assert await shop.write(replays.one("whe_001", of.id, 1, LATER_US)) == 2
    events = await told(shop, LATER_US)
    assert [(place, kind, back is None) for place, kind, back in events] == [
        (1, "payment.succeeded", True),
        (2, "refund.pending", False),
    ]
    # asked for from a place that there is not yet: the newest one comes
    await shop.write(replays.one("whe_001", of.id, 99, LATER_US))
    assert [place for place, _, _ in await told(shop, LATER_US)] == [2]


async def test_nothing_happens_to_a_payment_that_is_over(shop):
    """Its refund's events are counted on from its last version."""
    of = await paid(shop)
    known = await shop.reader.payment(of.id)
    for event in ("simulate_failed", "simulate_expired", "cancel"):
        with pytest.raises(Exception, match="cannot be"):
            await shop.write(simulation.simulate(of.id, Event(event), ASKED, LATER_US))
    later = await shop.write(simulation.simulate(of.id, Event.SIMULATE_SUCCEEDED, ASKED, LATER_US))
    assert later == known == replace(known, version=1)
