"""What waits to be told: written with the change, claimed by one, in order, lost by nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.payments.payment import CancelledReason
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.endpoint import EndpointState
from florin_server.store.accounts import merchants
from florin_server.store.payments import payments
from florin_server.store.webhooks import deliveries, endpoints, replays
from florin_server.store.webhooks.endpoints import Owner

from tests.support.hooked import DAY_US, LEASE_US, added, claim, endpoint, fail, secret, tell
from tests.support.store_kit import NOW_US, payment

OWNER = Owner("par_1", live=False)


async def test_changes_wait_for_those_who_may_hear_of_them(shop):
    await added(shop, 1)
    await added(shop, 2, merchant_id=None)
    # another merchant's, another partner's with the ids of ours, and one of the other mode
    await added(shop, 3, merchant_id="mer_2")
    await added(shop, 4, partner_id="par_2")
    await added(shop, 5, partner_id="par_2", merchant_id="par_1")
    await added(shop, 6, live=True)
    made = await shop.write(payments.create(payment()))
    assert [one.endpoint.id for one in await claim(shop)] == ["whe_001", "whe_002"]
    assert (await claim(shop)) == []
    assert made.id


async def test_an_endpoint_hears_of_what_comes_after_it(shop):
    first = await shop.write(payments.create(payment()))
    await added(shop)
    assert await claim(shop) == []
    await shop.write(payments.cancel(first.id, CancelledReason.BY_USER, NOW_US))
    (one,) = await claim(shop)
    assert (one.waiting.told, one.waiting.newest) == (0, 1)


async def test_one_payment_is_told_in_order_one_version_at_a_time(shop):
    await added(shop)
    made = await shop.write(payments.create(payment()))
    (one,) = await claim(shop)
    await shop.write(payments.cancel(made.id, CancelledReason.BY_USER, NOW_US))
    # the second waits for the end of the first
    assert await claim(shop) == []
    work = await shop.read(deliveries.work(one, NOW_US))
    assert [event.place for event in work.happened] == [0]
    assert await tell(shop, one)
    (two,) = await claim(shop)
    assert (two.waiting.told, two.waiting.newest) == (0, 1)
    work = await shop.read(deliveries.work(two, NOW_US))
    assert [(event.place, event.status) for event in work.happened] == [(1, "cancelled")]
    assert await tell(shop, two)
    figures = await shop.survey(deliveries.figures())
    assert (figures.waiting, figures.oldest_us) == (0, None)
    assert await claim(shop, NOW_US + DAY_US) == []


async def test_what_a_dead_process_claimed_is_claimed_again_and_it_ends_nothing_more(shop):
    await added(shop)
    await shop.write(payments.create(payment()))
    (dead,) = await claim(shop)
    assert await claim(shop, NOW_US + LEASE_US - 1) == []
    (one,) = await claim(shop, NOW_US + LEASE_US)
    assert not await tell(shop, dead)
    await fail(shop, dead)
    await shop.write(deliveries.give_back([dead], NOW_US))
    assert await claim(shop, NOW_US + LEASE_US) == []
    assert await tell(shop, one)
    # what it did is written down all the same
    assert len(await shop.read(endpoints.attempts("whe_001", None, 10))) == 3


async def test_a_process_that_is_alone_frees_what_the_one_before_had(shop):
    await added(shop)
    await shop.write(payments.create(payment()))
    assert len(await claim(shop)) == 1
    await shop.write(deliveries.free(NOW_US))
    assert len(await claim(shop)) == 1


@pytest.mark.parametrize("freed", ["given back", "freed at start", "resumed", "replayed"])
async def test_a_delivery_whose_claim_was_given_up_is_not_held(shop, freed):
    """Whoever had it ends nothing more, though nobody has claimed it since."""
    await added(shop)
    made = await shop.write(payments.create(payment()))
    (one,) = await claim(shop)
    # a receipt names the epoch under which it was claimed
    epoch = one.waiting.epoch + 1

    async def held():
        return await shop.write(deliveries.held("whe_001", made.id, epoch))

    assert await held() is not None
    match freed:
        case "given back":
            await shop.write(deliveries.give_back([one], NOW_US))
        case "freed at start":
            await shop.write(deliveries.free(NOW_US))
        case "resumed":
            await shop.write(deliveries.halt(one, "its secret is lost", NOW_US))
            await shop.write(endpoints.resume("whe_001", NOW_US))
        case _:
            await shop.write(replays.one("whe_001", made.id, 0, NOW_US))
    assert await held() is None
    assert not await tell(shop, one)
    await fail(shop, one)
    # it is tried as if nobody had: neither put off nor counted
    (again,) = [found for found in await claim(shop) if found.waiting.payment_id == made.id]
    assert (again.waiting.attempts, again.waiting.told) == (0, -1)


async def test_a_failure_is_tried_again_later_and_given_up_after_three_days(shop):
    await added(shop)
    made = await shop.write(payments.create(payment()))
    now_us, tried = NOW_US, 0
    while found := await claim(shop, now_us):
        state = await fail(shop, found[0], now_us)
        tried += 1
        now_us += 12 * 3600 * 1_000_000 + 5_000_000_000
    assert state is EndpointState.PAUSED
    assert tried < 12
    (known,) = await shop.read(endpoints.listed("par_1", None, False, "", 10))
    assert known.paused_reason == "every attempt failed for 3 days"
    # nothing is lost: it waits, and goes on when it is resumed
    await shop.write(endpoints.resume(known.id, now_us))
    (one,) = await claim(shop, now_us)
    assert (one.waiting.payment_id, one.waiting.told) == (made.id, -1)


async def test_one_payment_that_is_refused_holds_up_no_other(shop):
    await added(shop)
    bad = await shop.write(payments.create(payment()))
    (one,) = await claim(shop)
    await fail(shop, one)
    good = await shop.write(payments.create(payment()))
    (two,) = await claim(shop)
    assert two.waiting.payment_id == good.id
    assert await tell(shop, two)
    later = NOW_US + 2 * schedule.retry_after_us(1, bad.id)
    assert [found.waiting.payment_id for found in await claim(shop, later)] == [bad.id]


async def test_an_endpoint_that_fails_rests_and_is_tried_with_one_at_a_time(shop):
    await added(shop)
    for _ in range(20):
        await shop.write(payments.create(payment()))
    for _ in range(schedule.FAILING):
        (one,) = await claim(shop)
        await fail(shop, one)
    assert await claim(shop) == []
    (one,) = await claim(shop, NOW_US + 5_000_000)
    await tell(shop, one, NOW_US + 5_000_000)
    # one that is well gets a few
    assert len(await claim(shop, NOW_US + 5_000_000)) == 4


async def test_who_asks_to_wait_is_left_alone_that_long_and_never_less(shop):
    await added(shop)
    for _ in range(2):
        await shop.write(payments.create(payment()))
    (one,) = await claim(shop)
    minute = 60_000_000
    await fail(shop, one, asked_us=minute)
    # its other events wait too
    assert await claim(shop, NOW_US + minute - 1) == []
    (one,) = await claim(shop, NOW_US + minute)
    assert await tell(shop, one, NOW_US + minute)
    # who asks for nothing is not asked at once
    (two,) = await claim(shop, NOW_US + minute)
    await fail(shop, two, NOW_US + minute, asked_us=1)
    assert await claim(shop, NOW_US + minute + 4_999_999) == []


async def test_nobody_has_events_held_for_ever(shop):
    """One that always asks for as much as it gets hears of less, and is paused in the end."""
    await added(shop)
    await shop.write(payments.create(payment()))
    now_us, tried = NOW_US, 0
    while claimed := await claim(shop, now_us):
        state = await fail(shop, claimed[0], now_us, asked_us=43_200_000_000)
        tried += 1
        now_us += 43_200_000_000 + 4_320_000_000
    assert state is EndpointState.PAUSED
    assert tried >= 6


async def test_an_endpoint_that_is_gone_is_paused_at_once(shop):
    await added(shop)
    await shop.write(payments.create(payment()))
    (one,) = await claim(shop)
    assert await fail(shop, one, gone=True) is EndpointState.PAUSED
    assert await claim(shop, NOW_US + DAY_US) == []


async def test_crowded_partners_take_no_place_of_others(shop):
    await added(shop)
    await shop.write(payments.create(payment()))
    assert await shop.read(deliveries.is_due(NOW_US, (), ["par_2"]))
    assert not await shop.read(deliveries.is_due(NOW_US, (), ["par_1"]))
    assert await claim(shop, limit=1, crowded=["par_1"]) == []
    (one,) = await claim(shop, limit=1, crowded=["par_2"])
    assert one.endpoint.partner_id == "par_1"


async def test_busy_and_paused_endpoints_and_suspended_partners_are_left_out(shop):
    await added(shop, 1)
    await added(shop, 2)
    await shop.write(payments.create(payment()))
    assert [one.endpoint.id for one in await claim(shop, busy=["whe_001"])] == ["whe_002"]
    await shop.write(endpoints.pause("whe_001", "why"))
    assert await claim(shop) == []
    await shop.write(endpoints.resume("whe_001", NOW_US))
    await shop.write(merchants.set_partner_status("par_1", "suspended"))
    assert await claim(shop) == []
    await shop.write(merchants.set_partner_status("par_1", "active"))
    assert len(await claim(shop)) == 1


async def test_a_clock_that_was_far_ahead_holds_nothing_up(shop):
    await added(shop)
    future = NOW_US + 365 * DAY_US
    await shop.write(payments.create(payment(created_at_us=future, updated_at_us=future)))
    assert len(await claim(shop)) == 1


async def test_a_payment_is_told_again_from_a_version_on(shop):
    await added(shop)
    made = await shop.write(payments.create(payment()))
    await shop.write(payments.cancel(made.id, CancelledReason.BY_USER, NOW_US))
    for _ in range(2):
        (one,) = await claim(shop)
        await tell(shop, one)
    assert await shop.write(replays.one("whe_001", made.id, 1, NOW_US)) == 1
    (one,) = await claim(shop)
    assert (one.waiting.told, one.waiting.newest) == (0, 1)
    # asked for while it is told: it begins again, and the attempt of before ends nothing
    await shop.write(replays.one("whe_001", made.id, 0, NOW_US))
    assert not await tell(shop, one)
    (again,) = await claim(shop)
    assert again.waiting.told == -1


async def test_the_last_attempts_are_kept_and_no_more(shop):
    await added(shop)
    for _ in range(8):
        await shop.write(payments.create(payment()))
        (one,) = await claim(shop)
        await tell(shop, one)
    kept = await shop.read(endpoints.attempts("whe_001", None, 100))
    assert [found.n for found in kept] == [8, 7, 6, 5, 4]
    payment_id = kept[1].payment_id
    (found,) = await shop.read(endpoints.attempts("whe_001", payment_id, 100))
    assert (found.status, found.answer, found.succeeded) == (200, "ok", True)


async def test_an_endpoint_that_was_deleted_leaves_nothing_and_ends_nothing(shop):
    await added(shop)
    await shop.write(payments.create(payment()))
    (one,) = await claim(shop)
    await shop.write(endpoints.forget("whe_001"))
    assert not await tell(shop, one)
    assert await fail(shop, one) is EndpointState.PAUSED
    assert await shop.read(endpoints.attempts("whe_001", None, 10)) == []
    assert await shop.read(endpoints.secrets("whe_001", NOW_US)) == []


async def test_an_owner_has_one_endpoint_at_a_url_and_so_many_at_all(shop):
    made = await added(shop)
    again = replace(made, id="whe_other")
    assert await shop.write(endpoints.add(again, secret(), 10)) == "whe_001"
    with pytest.raises(OverflowError):
        await shop.write(endpoints.add(endpoint(2), secret(), 1))


async def test_secrets_overlap_for_as_long_as_they_were_told_to(shop):
    await added(shop)
    until = NOW_US + DAY_US
    for n in (2, 3, 4, 5):
        assert await shop.read(endpoints.next_secret("whe_001")) == n
        await shop.write(endpoints.rotate("whe_001", secret(n), NOW_US, until))
    assert [one.n for one in await shop.read(endpoints.secrets("whe_001", NOW_US))] == [5, 4, 3]
    assert [one.n for one in await shop.read(endpoints.secrets("whe_001", until))] == [5]


async def test_another_partner_has_no_such_endpoint(shop):
    await added(shop)
    assert await shop.read(endpoints.one(OWNER, "whe_001")) is not None
    assert await shop.read(endpoints.one(Owner("par_2", live=False), "whe_001")) is None
    assert await shop.read(endpoints.one(Owner("par_1", live=True), "whe_001")) is None
