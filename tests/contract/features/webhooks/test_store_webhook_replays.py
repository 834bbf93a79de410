"""Test replays of events since a time: all of them, nothing else, a page at a time."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.accounts.store import merchants
from florin_server.domain.ids import get_payment_id_floor
from florin_server.domain.payments.payment import (
    CancellationReason,
    Merchant,
    Refund,
    RefundStatus,
)
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.domain.webhooks.endpoint import EVENT_TYPES
from florin_server.features.webhooks.store import deliveries, replays
from florin_server.features.webhooks.store.replays import ReplayPosition, ReplayRequest
from florin_server.money.payments.store import payments, simulation
from florin_server.money.refunds import store as refunds

from tests.support.requested_data import REQUESTED_AMOUNT
from tests.support.store_factories import NOW_US, PAYER, make_payment
from tests.support.webhook_rows import (
    add_endpoint,
    claim_deliveries,
    record_delivered,
    record_failed,
)

pytestmark = pytest.mark.long

ALL = frozenset(EVENT_TYPES)
HOUR_US = 3_600_000_000


def make_replay_request(since_us=NOW_US, types=ALL, oldest="", **options):
    return ReplayRequest(
        since_us, frozenset(types), oldest, is_filtered=frozenset(types) != ALL, **options
    )


async def again(store, endpoint, expected, after=None, now_us=NOW_US):
    """Replay all pages; return the number of payments on each."""
    counts, place = [], after or ReplayPosition(expected.oldest_payment_id)
    while place is not None:
        count, place = await store.write(replays.replay_page(endpoint, expected, place, now_us))
        counts.append(count)
    return counts


async def heard(store, now_us=NOW_US):
    """Deliver everything; return payment, position and type of the events an endpoint wants."""
    results = []
    while claimed := await claim_deliveries(store, now_us):
        for delivery in claimed:
            work = await store.read(deliveries.find_delivery_data(delivery, now_us))
            expected = [
                event
                for event in work.pending_events
                if event.event_type
                and delivery.pending.includes_event(event.place, event.event_type)
            ]
            results += [(delivery.pending.payment_id, e.place, e.event_type) for e in expected]
            newest = delivery.pending.newest
            await store.write(deliveries.record_delivered(delivery, newest, now_us, None, 1))
    return sorted(results)


async def paid_at(store, at_us, **changes):
    """Create a payment that was made and paid at a time."""
    payment = make_payment(created_at_us=at_us, updated_at_us=at_us, **changes)
    await store.write(payments.create(payment))
    await store.write(
        simulation.simulate(
            payment.id, PaymentStateEvent.SIMULATE_SUCCEEDED, REQUESTED_AMOUNT, at_us + 1
        )
    )
    return payment


async def refunded_at(store, of, at_us):
    back = Refund(f"rfnd_{of.id}", of.id, "u", 5, PAYER, RefundStatus.SUCCEEDED, "t", at_us, at_us)
    await store.write(refunds.create(back))


async def test_replay_sends_only_events_since_the_requested_time(shop):
    endpoint = await add_endpoint(shop)
    early = await paid_at(shop, NOW_US - HOUR_US)
    late = await paid_at(shop, NOW_US)
    across = make_payment(created_at_us=NOW_US - HOUR_US, updated_at_us=NOW_US - HOUR_US)
    await shop.write(payments.create(across))
    await shop.write(payments.cancel(across.id, CancellationReason.BY_USER, NOW_US))
    await refunded_at(shop, early, NOW_US + 5)
    await heard(shop)
    assert sum(await again(shop, endpoint, make_replay_request())) == 3
    assert await heard(shop) == sorted(
        [
            (early.id, 2, "refund.succeeded"),
            (late.id, 0, "payment.created"),
            (late.id, 1, "payment.succeeded"),
            (across.id, 1, "payment.cancelled"),
        ]
    )


async def test_replay_sends_only_the_requested_event_types(shop):
    endpoint = await add_endpoint(shop)
    created = [await paid_at(shop, NOW_US) for _ in range(3)]
    await refunded_at(shop, created[1], NOW_US)
    await heard(shop)
    types = {"payment.created", "refund.succeeded"}
    assert sum(await again(shop, endpoint, make_replay_request(types=types))) == 3
    # new events are delivered as usual
    await refunded_at(shop, created[2], NOW_US)
    assert await heard(shop) == sorted(
        [
            *((item.id, 0, "payment.created") for item in created),
            (created[1].id, 2, "refund.succeeded"),
            (created[2].id, 2, "refund.succeeded"),
        ]
    )
    assert sum(await again(shop, endpoint, make_replay_request(types={"payment.failed"}))) == 0


async def test_replay_filter_does_not_drop_undelivered_events(shop):
    endpoint = await add_endpoint(shop)
    payment = make_payment()
    await shop.write(payments.create(payment))
    (delivery,) = await claim_deliveries(shop)
    await record_delivered(shop, delivery)
    await shop.write(
        simulation.simulate(
            payment.id, PaymentStateEvent.SIMULATE_SUCCEEDED, REQUESTED_AMOUNT, NOW_US
        )
    )
    # the second event waits, and the first is to be delivered again
    await again(shop, endpoint, make_replay_request(types={"payment.created"}))
    assert [place for _, place, _ in await heard(shop)] == [0, 1]


@pytest.mark.parametrize(
    ("types", "expected_places"),
    [
        (["payment.created"], [0]),
        (["payment.succeeded"], [0, 1]),
        (list(ALL), [0, 1]),
    ],
    ids=["the same", "others", "all"],
)
async def test_a_second_replay_takes_nothing_from_the_first(shop, types, expected_places):
    endpoint = await add_endpoint(shop)
    await paid_at(shop, NOW_US)
    await heard(shop)
    await again(shop, endpoint, make_replay_request(types=["payment.created"]))
    await again(shop, endpoint, make_replay_request(types=types))
    assert [place for _, place, _ in await heard(shop)] == expected_places


async def test_endpoint_receives_only_events_of_its_own_payments(shop):
    ours = await add_endpoint(shop)
    everything = await add_endpoint(shop, 2, merchant_id=None)
    second = Merchant("mer_2", "par_1", "Shop", "a@b.c", None, "active", False, NOW_US)
    await shop.write(merchants.create(second))
    # callers can choose merchant IDs: this one is another partner's ID
    await paid_at(shop, NOW_US, partner_id="par_2", merchant_id="par_1")
    await paid_at(shop, NOW_US, partner_id="par_2", merchant_id="mer_1")
    await paid_at(shop, NOW_US, live=True)
    other = await paid_at(shop, NOW_US, merchant_id="mer_2")
    await refunded_at(shop, other, NOW_US)
    await heard(shop)
    assert sum(await again(shop, ours, make_replay_request())) == 0
    assert sum(await again(shop, everything, make_replay_request())) == 1
    # nor through old refunds
    for endpoint in (ours, everything):
        expected = make_replay_request(oldest=get_payment_id_floor(2**50))
        counts = await again(shop, endpoint, expected, ReplayPosition("", 0))
        assert sum(counts) == (endpoint is everything)


async def test_each_page_looks_at_so_many_payments_and_no_more(shop, monkeypatch):
    endpoint = await add_endpoint(shop)
    created = [await paid_at(shop, NOW_US) for _ in range(5)]
    for item in created:
        await refunded_at(shop, item, NOW_US)
    await heard(shop)
    monkeypatch.setattr(replays, "PAGE", 2)
    counts = await again(shop, endpoint, make_replay_request())
    old = await again(shop, endpoint, make_replay_request(oldest="pay_z"), ReplayPosition("", 0))
    # then the refunds of older payments, of which none exist
    assert [count for count in counts if count] == [2, 2, 1]
    assert max(counts) == 2
    assert [count for count in old if count] == [2, 2, 1]
    assert len({payment_id for payment_id, _, _ in await heard(shop)}) == 5


async def test_replay_page_position_reveals_nothing_of_foreign_payments(shop, monkeypatch):
    """Neither an ID, which would reveal a payment, nor the times and number of others' refunds."""
    endpoint = await add_endpoint(shop)
    for n in range(5):
        created = await paid_at(shop, NOW_US, partner_id="par_2", merchant_id="mer_1")
        await refunded_at(shop, created, NOW_US + n)
    monkeypatch.setattr(replays, "PAGE", 2)
    expected = make_replay_request(oldest="pay_z")
    assert await shop.write(
        replays.replay_page(endpoint, expected, ReplayPosition("", 0), NOW_US)
    ) == (0, None)


async def test_events_during_a_replay_are_lost_by_no_endpoint(shop):
    ours, everything = await add_endpoint(shop), await add_endpoint(shop, 2, merchant_id=None)
    created = [await paid_at(shop, NOW_US) for _ in range(20)]
    await heard(shop)
    await asyncio.gather(
        *(refunded_at(shop, item, NOW_US) for item in reversed(created)),
        *(
            again(shop, endpoint, make_replay_request())
            for endpoint in (ours, everything)
            for _ in range(3)
        ),
    )
    result = await heard(shop)
    places = sorted((item.id, place) for item in created for place in range(3))
    assert sorted({(payment_id, place) for payment_id, place, _ in result}) == places
    assert sum(kind == "refund.succeeded" for _, _, kind in result) >= 2 * len(created)


async def test_so_much_waits_and_no_more(shop):
    endpoint = await add_endpoint(shop)
    ops = [payments.create(make_payment()) for _ in range(replays.WAITING_MAX)]
    await asyncio.gather(*(shop.write(op) for op in ops[1:]))
    assert not await shop.read(replays.is_full(endpoint.id))
    await shop.write(ops[0])
    assert await shop.read(replays.is_full(endpoint.id))


async def test_replay_includes_abandoned_deliveries_and_releases_claims(shop):
    endpoint = await add_endpoint(shop)
    payment = make_payment()
    await shop.write(payments.create(payment))
    (delivery,) = await claim_deliveries(shop)
    await again(shop, endpoint, make_replay_request())
    # the attempt from before the replay ends nothing
    assert not await record_delivered(shop, delivery)
    (two,) = await claim_deliveries(shop)
    await record_failed(shop, two, NOW_US + 30 * 24 * HOUR_US)
    assert await claim_deliveries(shop) == []
    await again(shop, endpoint, make_replay_request(), now_us=NOW_US)
    assert await heard(shop) == [(payment.id, 0, "payment.created")]
