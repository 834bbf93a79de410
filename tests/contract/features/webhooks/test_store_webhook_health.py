"""Test the health of endpoints: shares of attempts, answer times, queues, and their bounds."""

from __future__ import annotations

from florin_server.features.webhooks.store import endpoints, health
from florin_server.money.payments.store import payments

from tests.support.store_factories import NOW_US, make_payment
from tests.support.webhook_rows import (
    DAY_US,
    add_endpoint,
    claim_deliveries,
    record_delivered,
    record_failed,
)

HOUR_US = 3600 * 1_000_000


async def read_health(shop, now_us=NOW_US):
    listed = await shop.read(endpoints.list_endpoints("par_1", None, False, "", 10))
    return await shop.read(health.list_health(listed, now_us))


async def test_endpoint_without_attempts_claims_nothing(shop):
    await add_endpoint(shop)
    result = (await read_health(shop))["whe_001"]
    assert (result.attempts_day, result.attempts_week, result.median_ms) == (0, 0, None)
    assert (result.queued_payments, result.next_attempt_at_us) == (0, None)


async def test_every_attempt_counts_in_its_hour_and_leaves_the_window(shop):
    await add_endpoint(shop)
    for minute in range(3):
        await shop.write(payments.create(make_payment()))
        (delivery,) = await claim_deliveries(shop)
        await record_delivered(shop, delivery, NOW_US + minute)
    await shop.write(payments.create(make_payment()))
    (delivery,) = await claim_deliveries(shop)
    await record_failed(shop, delivery, NOW_US + HOUR_US)
    result = (await read_health(shop, NOW_US + HOUR_US))["whe_001"]
    assert (result.successes_day, result.attempts_day) == (3, 4)
    assert result.median_ms == 12
    assert result.queued_payments == 1
    assert result.next_attempt_at_us is not None
    assert result.next_attempt_at_us > NOW_US + HOUR_US
    later = (await read_health(shop, NOW_US + DAY_US + 2 * HOUR_US))["whe_001"]
    assert (later.attempts_day, later.attempts_week, later.successes_week) == (0, 4, 3)
    assert (await read_health(shop, NOW_US + 9 * DAY_US))["whe_001"].attempts_week == 0


async def test_paused_endpoint_has_no_next_attempt(shop):
    await add_endpoint(shop)
    await shop.write(payments.create(make_payment()))
    assert (await read_health(shop))["whe_001"].next_attempt_at_us is not None
    await shop.write(endpoints.pause("whe_001", "you paused it"))
    result = (await read_health(shop))["whe_001"]
    assert (result.queued_payments, result.next_attempt_at_us) == (1, None)


async def test_count_of_the_queue_is_bounded(shop, monkeypatch):
    monkeypatch.setattr(health, "QUEUED_MAX", 3)
    await add_endpoint(shop)
    for _ in range(5):
        await shop.write(payments.create(make_payment()))
    result = (await read_health(shop))["whe_001"]
    assert (result.queued_payments, result.has_more_queued) == (3, True)


async def test_old_hours_are_deleted_and_newer_ones_stay(shop):
    await add_endpoint(shop)
    for days in (0, 2, 8):
        await shop.write(health.record_attempt("whe_001", NOW_US + days * DAY_US, is_success=True))
    assert await shop.write(health.forget_old(NOW_US + 8 * DAY_US, 10)) == 1
    assert await shop.write(health.forget_old(NOW_US + 8 * DAY_US, 10)) == 0
    result = (await read_health(shop, NOW_US + 8 * DAY_US))["whe_001"]
    assert result.attempts_week == 2


async def test_hours_of_a_deleted_endpoint_go_with_it(shop):
    await add_endpoint(shop)
    await shop.write(health.record_attempt("whe_001", NOW_US, is_success=True))
    await shop.write(endpoints.forget("whe_001"))
    await add_endpoint(shop)
    assert (await read_health(shop))["whe_001"].attempts_week == 0
