"""Events since a time are told again: all of them, nothing else, a page at a time."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.domain.ids import made_from
from florin_server.domain.payments.payment import CancelledReason, Merchant, Refund, RefundStatus
from florin_server.domain.payments.state import Event
from florin_server.domain.webhooks.endpoint import EVENT_TYPES
from florin_server.store.accounts import merchants
from florin_server.store.payments import payments, simulation
from florin_server.store.payouts import refunds
from florin_server.store.webhooks import deliveries, replays
from florin_server.store.webhooks.replays import Asked, Place

from tests.support.hooked import added, claim, fail, tell
from tests.support.store_asked import ASKED
from tests.support.store_kit import NOW_US, PAYER, payment

pytestmark = pytest.mark.long

ALL = frozenset(EVENT_TYPES)
HOUR_US = 3_600_000_000


def asked(since_us=NOW_US, types=ALL, oldest="", **options):
    return Asked(since_us, frozenset(types), oldest, narrow=frozenset(types) != ALL, **options)


async def again(store, endpoint, wanted, after=None, now_us=NOW_US):
    """All pages; answers how many payments each had."""
    counts, place = [], after or Place(wanted.oldest)
    while place is not None:
        count, place = await store.write(replays.page(endpoint, wanted, place, now_us))
        counts.append(count)
    return counts


async def heard(store, now_us=NOW_US):
    """All that is told, as an endpoint that hears everything would be: payment, place, type."""
    found = []
    while claimed := await claim(store, now_us):
        for one in claimed:
            work = await store.read(deliveries.work(one, now_us))
            wanted = [
                event
                for event in work.happened
                if event.event_type and one.waiting.wants(event.place, event.event_type)
            ]
            found += [(one.waiting.payment_id, e.place, e.event_type) for e in wanted]
            newest = one.waiting.newest
            await store.write(deliveries.told(one, newest, now_us, None, 1))
    return sorted(found)


async def paid_at(store, at_us, **changes):
    """A payment that was made and paid at a time."""
    made = payment(created_at_us=at_us, updated_at_us=at_us, **changes)
    await store.write(payments.create(made))
    await store.write(simulation.simulate(made.id, Event.SIMULATE_SUCCEEDED, ASKED, at_us + 1))
    return made


async def refunded_at(store, of, at_us):
    back = Refund(f"rfnd_{of.id}", of.id, "u", 5, PAYER, RefundStatus.SUCCEEDED, "t", at_us, at_us)
    await store.write(refunds.create(back))


async def test_events_since_a_time_are_told_again_and_no_others(shop):
    endpoint = await added(shop)
    early = await paid_at(shop, NOW_US - HOUR_US)
    late = await paid_at(shop, NOW_US)
    across = payment(created_at_us=NOW_US - HOUR_US, updated_at_us=NOW_US - HOUR_US)
    await shop.write(payments.create(across))
    await shop.write(payments.cancel(across.id, CancelledReason.BY_USER, NOW_US))
    await refunded_at(shop, early, NOW_US + 5)
    await heard(shop)
    assert sum(await again(shop, endpoint, asked())) == 3
    assert await heard(shop) == sorted(
        [
            (early.id, 2, "refund.succeeded"),
            (late.id, 0, "payment.created"),
            (late.id, 1, "payment.succeeded"),
            (across.id, 1, "payment.cancelled"),
        ]
    )


async def test_only_types_that_are_asked_for_are_told_again(shop):
    endpoint = await added(shop)
    made = [await paid_at(shop, NOW_US) for _ in range(3)]
    await refunded_at(shop, made[1], NOW_US)
    await heard(shop)
    types = {"payment.created", "refund.succeeded"}
    assert sum(await again(shop, endpoint, asked(types=types))) == 3
    # what comes meanwhile is told as ever
    await refunded_at(shop, made[2], NOW_US)
    assert await heard(shop) == sorted(
        [
            *((one.id, 0, "payment.created") for one in made),
            (made[1].id, 2, "refund.succeeded"),
            (made[2].id, 2, "refund.succeeded"),
        ]
    )
    assert sum(await again(shop, endpoint, asked(types={"payment.failed"}))) == 0


async def test_what_was_not_told_yet_is_left_out_by_no_filter(shop):
    endpoint = await added(shop)
    made = payment()
    await shop.write(payments.create(made))
    (one,) = await claim(shop)
    await tell(shop, one)
    await shop.write(simulation.simulate(made.id, Event.SIMULATE_SUCCEEDED, ASKED, NOW_US))
    # the second event waits, and the first is to come again
    await again(shop, endpoint, asked(types={"payment.created"}))
    assert [place for _, place, _ in await heard(shop)] == [0, 1]


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (["payment.created"], [0]),
        (["payment.succeeded"], [0, 1]),
        (list(ALL), [0, 1]),
    ],
    ids=["the same", "others", "all"],
)
async def test_a_second_replay_takes_nothing_from_the_first(shop, types, told):
    endpoint = await added(shop)
    await paid_at(shop, NOW_US)
    await heard(shop)
    await again(shop, endpoint, asked(types=["payment.created"]))
    await again(shop, endpoint, asked(types=types))
    assert [place for _, place, _ in await heard(shop)] == told


async def test_nobody_hears_of_payments_that_are_not_its_own(shop):
    ours = await added(shop)
    everything = await added(shop, 2, merchant_id=None)
    second = Merchant("mer_2", "par_1", "Shop", "a@b.c", None, "active", False, NOW_US)
    await shop.write(merchants.create(second))
    # ids of merchants may be chosen: one that is a partner's
    await paid_at(shop, NOW_US, partner_id="par_2", merchant_id="par_1")
    await paid_at(shop, NOW_US, partner_id="par_2", merchant_id="mer_1")
    await paid_at(shop, NOW_US, live=True)
    other = await paid_at(shop, NOW_US, merchant_id="mer_2")
    await refunded_at(shop, other, NOW_US)
    await heard(shop)
    assert sum(await again(shop, ours, asked())) == 0
    assert sum(await again(shop, everything, asked())) == 1
    # nor by way of refunds of long ago
    for one in (ours, everything):
        wanted = asked(oldest=made_from(2**50))
        counts = await again(shop, one, wanted, Place("", 0))
        assert sum(counts) == (one is everything)


async def test_each_page_looks_at_so_many_payments_and_no_more(shop, monkeypatch):
    endpoint = await added(shop)
    made = [await paid_at(shop, NOW_US) for _ in range(5)]
    for one in made:
        await refunded_at(shop, one, NOW_US)
    await heard(shop)
    monkeypatch.setattr(replays, "PAGE", 2)
    counts = await again(shop, endpoint, asked())
    old = await again(shop, endpoint, asked(oldest="pay_z"), Place("", 0))
    # then the refunds of older ones, of which there are none
    assert [count for count in counts if count] == [2, 2, 1]
    assert max(counts) == 2
    assert [count for count in old if count] == [2, 2, 1]
    assert len({payment_id for payment_id, _, _ in await heard(shop)}) == 5


async def test_where_a_page_ends_tells_nothing_of_others(shop, monkeypatch):
    """Neither an id, which would show a payment, nor when and how often others pay back."""
    endpoint = await added(shop)
    for n in range(5):
        made = await paid_at(shop, NOW_US, partner_id="par_2", merchant_id="mer_1")
        await refunded_at(shop, made, NOW_US + n)
    monkeypatch.setattr(replays, "PAGE", 2)
    wanted = asked(oldest="pay_z")
    assert await shop.write(replays.page(endpoint, wanted, Place("", 0), NOW_US)) == (0, None)


async def test_what_comes_while_all_is_told_again_is_lost_by_neither(shop):
    ours, everything = await added(shop), await added(shop, 2, merchant_id=None)
    made = [await paid_at(shop, NOW_US) for _ in range(20)]
    await heard(shop)
    await asyncio.gather(
        *(refunded_at(shop, one, NOW_US) for one in reversed(made)),
        *(again(shop, one, asked()) for one in (ours, everything) for _ in range(3)),
    )
    told = await heard(shop)
    places = sorted((one.id, place) for one in made for place in range(3))
    assert sorted({(payment_id, place) for payment_id, place, _ in told}) == places
    assert sum(kind == "refund.succeeded" for _, _, kind in told) >= 2 * len(made)


async def test_so_much_waits_and_no_more(shop):
    endpoint = await added(shop)
    made = [payments.create(payment()) for _ in range(replays.WAITING_MAX)]
    await asyncio.gather(*(shop.write(one) for one in made[1:]))
    assert not await shop.read(replays.is_full(endpoint.id))
    await shop.write(made[0])
    assert await shop.read(replays.is_full(endpoint.id))


async def test_a_replay_goes_on_with_what_was_given_up_and_frees_what_is_claimed(shop):
    endpoint = await added(shop)
    made = payment()
    await shop.write(payments.create(made))
    (one,) = await claim(shop)
    await again(shop, endpoint, asked())
    # whoever tried it then ends nothing more
    assert not await tell(shop, one)
    (two,) = await claim(shop)
    await fail(shop, two, NOW_US + 30 * 24 * HOUR_US)
    assert await claim(shop) == []
    await again(shop, endpoint, asked(), now_us=NOW_US)
    assert await heard(shop) == [(made.id, 0, "payment.created")]
