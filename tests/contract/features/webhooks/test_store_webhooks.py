"""Test pending deliveries: stored with the change, claimed once, in order, never lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import merchants
from florin_server.domain.payments.payment import CancellationReason
from florin_server.domain.webhooks import schedule
from florin_server.domain.webhooks.endpoint import EndpointState
from florin_server.features.webhooks.store import claims, deliveries, endpoints, replays
from florin_server.features.webhooks.store.endpoints import EndpointOwner
from florin_server.money.payments.store import payments

from tests.support.store_factories import NOW_US, make_payment
from tests.support.webhook_rows import (
    DAY_US,
    LEASE_US,
    add_endpoint,
    claim_deliveries,
    make_endpoint,
    make_secret,
    record_delivered,
    record_failed,
)

OWNER = EndpointOwner("par_1", live=False)


async def test_changes_are_queued_only_for_entitled_endpoints(shop):
    await add_endpoint(shop, 1)
    await add_endpoint(shop, 2, merchant_id=None)
    # another merchant's, another partner's with the same IDs, and one of the other mode
    await add_endpoint(shop, 3, merchant_id="mer_2")
    await add_endpoint(shop, 4, partner_id="par_2")
    await add_endpoint(shop, 5, partner_id="par_2", merchant_id="par_1")
    await add_endpoint(shop, 6, live=True)
    created = await shop.write(payments.create(make_payment()))
    assert [delivery.endpoint.id for delivery in await claim_deliveries(shop)] == [
        "whe_001",
        "whe_002",
    ]
    assert (await claim_deliveries(shop)) == []
    assert created.id


async def test_endpoint_receives_only_later_events(shop):
    first = await shop.write(payments.create(make_payment()))
    await add_endpoint(shop)
    assert await claim_deliveries(shop) == []
    await shop.write(payments.cancel(first.id, CancellationReason.BY_USER, NOW_US))
    (delivery,) = await claim_deliveries(shop)
    assert (delivery.pending.told, delivery.pending.newest) == (0, 1)


async def test_payment_events_are_delivered_in_order_and_singly(shop):
    await add_endpoint(shop)
    created = await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    await shop.write(payments.cancel(created.id, CancellationReason.BY_USER, NOW_US))
    # the second waits for the end of the first
    assert await claim_deliveries(shop) == []
    work = await shop.read(deliveries.find_delivery_data(delivery, NOW_US))
    assert [event.place for event in work.pending_events] == [0]
    assert await record_delivered(shop, delivery)
    (two,) = await claim_deliveries(shop)
    assert (two.pending.told, two.pending.newest) == (0, 1)
    work = await shop.read(deliveries.find_delivery_data(two, NOW_US))
    assert [(event.place, event.status) for event in work.pending_events] == [(1, "cancelled")]
    assert await record_delivered(shop, two)
    figures = await shop.scan(deliveries.get_stats())
    assert (figures.pending_count, figures.oldest_us) == (0, None)
    assert await claim_deliveries(shop, NOW_US + DAY_US) == []


async def test_delivery_claimed_by_a_dead_process_is_claimed_again(shop):
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    (dead,) = await claim_deliveries(shop)
    assert await claim_deliveries(shop, NOW_US + LEASE_US - 1) == []
    (delivery,) = await claim_deliveries(shop, NOW_US + LEASE_US)
    assert not await record_delivered(shop, dead)
    await record_failed(shop, dead)
    await shop.write(claims.release([dead], NOW_US))
    assert await claim_deliveries(shop, NOW_US + LEASE_US) == []
    assert await record_delivered(shop, delivery)
    # the dead process's attempt is still recorded
    assert len(await shop.read(endpoints.list_attempts("whe_001", None, 10))) == 3


async def test_sole_process_releases_deliveries_of_its_predecessor(shop):
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    assert len(await claim_deliveries(shop)) == 1
    await shop.write(claims.release_all(NOW_US))
    assert len(await claim_deliveries(shop)) == 1


@pytest.mark.parametrize("freed", ["given back", "freed at start", "resumed", "replayed"])
async def test_released_delivery_is_no_longer_held(shop, freed):
    """The former holder ends nothing more, even if the delivery was not claimed since."""
    await add_endpoint(shop)
    created = await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    # a result contains the epoch of its claim
    epoch = delivery.pending.epoch + 1

    async def held():
        return await shop.write(claims.lock_claimed("whe_001", created.id, epoch))

    assert await held() is not None
    match freed:
        case "given back":
            await shop.write(claims.release([delivery], NOW_US))
        case "freed at start":
            await shop.write(claims.release_all(NOW_US))
        case "resumed":
            await shop.write(deliveries.halt(delivery, "its secret is lost", NOW_US))
            await shop.write(endpoints.resume("whe_001", NOW_US))
        case _:
            await shop.write(replays.replay_payment("whe_001", created.id, 0, NOW_US))
    assert await held() is None
    assert not await record_delivered(shop, delivery)
    await record_failed(shop, delivery)
    # it is tried as if unclaimed: neither delayed nor counted
    (again,) = [
        found_delivery
        for found_delivery in await claim_deliveries(shop)
        if found_delivery.pending.payment_id == created.id
    ]
    assert (again.pending.attempts, again.pending.told) == (0, -1)


async def test_failed_delivery_is_retried_and_abandoned_after_three_days(shop):
    await add_endpoint(shop)
    created = await shop.write(payments.create(make_payment()))
    now_us, tried = NOW_US, 0
    while found_deliveries := await claim_deliveries(shop, now_us):
        state = await record_failed(shop, found_deliveries[0], now_us)
        tried += 1
        now_us += 12 * 3600 * 1_000_000 + 5_000_000_000
    assert state is EndpointState.PAUSED
    assert tried < 12
    (existing,) = await shop.read(endpoints.list_endpoints("par_1", None, False, "", 10))
    assert existing.paused_reason == "every attempt failed for 3 days"
    # nothing is lost: events wait, and delivery continues when it is resumed
    await shop.write(endpoints.resume(existing.id, now_us))
    (delivery,) = await claim_deliveries(shop, now_us)
    assert (delivery.pending.payment_id, delivery.pending.told) == (created.id, -1)


async def test_failed_payment_delivery_does_not_delay_other_payments(shop):
    await add_endpoint(shop)
    bad = await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    await record_failed(shop, delivery)
    good = await shop.write(payments.create(make_payment()))
    (two,) = await claim_deliveries(shop)
    assert two.pending.payment_id == good.id
    assert await record_delivered(shop, two)
    later = NOW_US + 2 * schedule.get_retry_delay_us(1, bad.id)
    assert [
        found_delivery.pending.payment_id for found_delivery in await claim_deliveries(shop, later)
    ] == [bad.id]


async def test_failing_endpoint_rests_and_is_retried_with_a_single_delivery(shop):
    await add_endpoint(shop)
    for _ in range(20):
        await shop.write(payments.create(make_payment()))
    for _ in range(schedule.FAILING_AFTER):
        (delivery,) = await claim_deliveries(shop)
        await record_failed(shop, delivery)
    assert await claim_deliveries(shop) == []
    (delivery,) = await claim_deliveries(shop, NOW_US + 5_000_000)
    await record_delivered(shop, delivery, NOW_US + 5_000_000)
    # a healthy endpoint gets a few at once
    assert len(await claim_deliveries(shop, NOW_US + 5_000_000)) == 4


async def test_retry_after_of_an_endpoint_is_respected_with_a_minimum_delay(shop):
    await add_endpoint(shop)
    for _ in range(2):
        await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    minute = 60_000_000
    await record_failed(shop, delivery, requested_wait_us=minute)
    # its other events wait too
    assert await claim_deliveries(shop, NOW_US + minute - 1) == []
    (delivery,) = await claim_deliveries(shop, NOW_US + minute)
    assert await record_delivered(shop, delivery, NOW_US + minute)
    # an endpoint that asks for almost no pause is not retried at once
    (two,) = await claim_deliveries(shop, NOW_US + minute)
    await record_failed(shop, two, NOW_US + minute, requested_wait_us=1)
    assert await claim_deliveries(shop, NOW_US + minute + 4_999_999) == []


async def test_endpoint_that_always_asks_to_wait_is_paused_in_the_end(shop):
    """An endpoint that always asks for the longest pause gets few attempts, and is paused."""
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    now_us, tried = NOW_US, 0
    while claimed := await claim_deliveries(shop, now_us):
        state = await record_failed(shop, claimed[0], now_us, requested_wait_us=43_200_000_000)
        tried += 1
        now_us += 43_200_000_000 + 4_320_000_000
    assert state is EndpointState.PAUSED
    assert tried >= 6


async def test_an_endpoint_that_is_gone_is_paused_at_once(shop):
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    assert await record_failed(shop, delivery, is_gone=True) is EndpointState.PAUSED
    assert await claim_deliveries(shop, NOW_US + DAY_US) == []


async def test_crowded_partner_takes_no_slot_of_other_partners(shop):
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    assert await shop.read(claims.is_due(NOW_US, (), ["par_2"]))
    assert not await shop.read(claims.is_due(NOW_US, (), ["par_1"]))
    assert await claim_deliveries(shop, limit=1, crowded=["par_1"]) == []
    (delivery,) = await claim_deliveries(shop, limit=1, crowded=["par_2"])
    assert delivery.endpoint.partner_id == "par_1"


async def test_busy_and_paused_endpoints_and_suspended_partners_are_left_out(shop):
    await add_endpoint(shop, 1)
    await add_endpoint(shop, 2)
    await shop.write(payments.create(make_payment()))
    assert [
        delivery.endpoint.id for delivery in await claim_deliveries(shop, busy=["whe_001"])
    ] == ["whe_002"]
    await shop.write(endpoints.pause("whe_001", "why"))
    assert await claim_deliveries(shop) == []
    await shop.write(endpoints.resume("whe_001", NOW_US))
    await shop.write(merchants.set_partner_status("par_1", "suspended"))
    assert await claim_deliveries(shop) == []
    await shop.write(merchants.set_partner_status("par_1", "active"))
    assert len(await claim_deliveries(shop)) == 1


async def test_a_clock_that_was_far_ahead_holds_nothing_up(shop):
    await add_endpoint(shop)
    future = NOW_US + 365 * DAY_US
    await shop.write(payments.create(make_payment(created_at_us=future, updated_at_us=future)))
    assert len(await claim_deliveries(shop)) == 1


async def test_payment_is_replayed_from_the_requested_version(shop):
    await add_endpoint(shop)
    created = await shop.write(payments.create(make_payment()))
    await shop.write(payments.cancel(created.id, CancellationReason.BY_USER, NOW_US))
    for _ in range(2):
        (delivery,) = await claim_deliveries(shop)
        await record_delivered(shop, delivery)
    assert await shop.write(replays.replay_payment("whe_001", created.id, 1, NOW_US)) == 1
    (delivery,) = await claim_deliveries(shop)
    assert (delivery.pending.told, delivery.pending.newest) == (0, 1)
    # requested during a delivery: it starts again, and the earlier attempt ends nothing
    await shop.write(replays.replay_payment("whe_001", created.id, 0, NOW_US))
    assert not await record_delivered(shop, delivery)
    (again,) = await claim_deliveries(shop)
    assert again.pending.told == -1


async def test_only_the_latest_attempts_are_retained(shop):
    await add_endpoint(shop)
    for _ in range(8):
        await shop.write(payments.create(make_payment()))
        (delivery,) = await claim_deliveries(shop)
        await record_delivered(shop, delivery)
    stored = await shop.read(endpoints.list_attempts("whe_001", None, 100))
    assert [found_result.n for found_result in stored] == [8, 7, 6, 5, 4]
    payment_id = stored[1].payment_id
    (result,) = await shop.read(endpoints.list_attempts("whe_001", payment_id, 100))
    assert (result.status, result.answer, result.is_success) == (200, "ok", True)


async def test_an_endpoint_that_was_deleted_leaves_nothing_and_ends_nothing(shop):
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    await shop.write(endpoints.forget("whe_001"))
    assert not await record_delivered(shop, delivery)
    assert await record_failed(shop, delivery) is EndpointState.PAUSED
    assert await shop.read(endpoints.list_attempts("whe_001", None, 10)) == []
    assert await shop.read(endpoints.list_secrets("whe_001", NOW_US)) == []


async def test_owner_has_a_single_endpoint_per_url_and_a_limited_number(shop):
    endpoint = await add_endpoint(shop)
    again = replace(endpoint, id="whe_other")
    assert await shop.write(endpoints.add(again, make_secret(), 10)) == "whe_001"
    with pytest.raises(OverflowError):
        await shop.write(endpoints.add(make_endpoint(2), make_secret(), 1))


async def test_rotated_secrets_overlap_for_the_requested_time(shop):
    await add_endpoint(shop)
    until = NOW_US + DAY_US
    for n in (2, 3, 4, 5):
        assert await shop.read(endpoints.get_next_secret_number("whe_001")) == n
        await shop.write(endpoints.rotate("whe_001", make_secret(n), NOW_US, until))
    assert [item.n for item in await shop.read(endpoints.list_secrets("whe_001", NOW_US))] == [
        5,
        4,
        3,
    ]
    assert [item.n for item in await shop.read(endpoints.list_secrets("whe_001", until))] == [5]


async def test_another_partner_has_no_such_endpoint(shop):
    await add_endpoint(shop)
    assert await shop.read(endpoints.find(OWNER, "whe_001")) is not None
    assert await shop.read(endpoints.find(EndpointOwner("par_2", live=False), "whe_001")) is None
    assert await shop.read(endpoints.find(EndpointOwner("par_1", live=True), "whe_001")) is None
