"""Test that a store shared with older processes has nothing that they would misread.

Their own writes are read as they mean them, and completed after they have ended.
"""

from __future__ import annotations

from florin_server.db import installation
from florin_server.db.engine.schema import HEAD
from florin_server.limits import store as sharing
from florin_server.money.outbox.store import events, older_releases
from florin_server.money.payouts.store import covered
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import payment_outcomes

from tests.support.store_covered import ends, leaves, marked, owed
from tests.support.store_factories import (
    LATER_US,
    create_chain_tx,
    create_processing_payment,
    execute_beside,
    make_success,
)
from tests.support.store_migrations import upgrade_finished
from tests.support.store_refunds import (
    claims,
    deliver_events,
    request_refund,
)
from tests.support.webhook_rows import add_endpoint, claim_deliveries

OLDER_IS_ALIVE = "INSERT INTO process (id, now_us) VALUES ('older', 1)"
OLDER_ENDS = "DELETE FROM process WHERE id = 'older'"


async def migrated(store, since_us=0):
    """Leave the mark of a migration that ran beside older processes."""
    await store.write(installation.put_value("older_releases", f"{HEAD} {since_us}"))


async def succeeded(store):
    of = await create_processing_payment(store)
    await create_chain_tx(store, of)
    (ended,) = await store.write(payment_outcomes.finalize([make_success(of)], [], LATER_US))
    return ended


async def settled(store, folder):
    return await execute_beside(
        store, folder, "SELECT payment_id, after_refunds FROM payment_settled"
    )


async def test_older_process_holds_features_back_until_it_has_ended(store, tmp_path):
    assert not await store.write(older_releases.is_held())
    await migrated(store)
    await execute_beside(store, tmp_path, OLDER_IS_ALIVE)
    await store.write(sharing.exchange("new", 1, [], {}, []))
    assert await store.write(older_releases.is_held())
    assert not await store.write(older_releases.release(alone=False))
    await execute_beside(store, tmp_path, OLDER_ENDS)
    await upgrade_finished(store)
    assert not await store.write(older_releases.is_held())


async def test_older_process_that_fell_silent_is_forgotten_after_a_minute(store, tmp_path):
    await migrated(store)
    await execute_beside(store, tmp_path, OLDER_IS_ALIVE)
    await store.write(sharing.exchange("new", 59_000_000, [], {}, []))
    assert not await store.write(older_releases.release(alone=False))
    await store.write(sharing.exchange("new", 61_000_000, [], {}, []))
    assert await store.write(older_releases.release(alone=False))


async def test_settlement_waits_for_older_process_and_follows_its_refunds(shop, tmp_path):
    await add_endpoint(shop)
    await migrated(shop)
    await execute_beside(shop, tmp_path, OLDER_IS_ALIVE)
    of = await succeeded(shop)
    assert await settled(shop, tmp_path) == []
    await request_refund(shop, of)
    # as an older process wrote it
    await execute_beside(shop, tmp_path, "UPDATE refund_event SET refund_id = ''")
    kinds = [kind for _, kind, _ in await deliver_events(shop, LATER_US)]
    assert kinds[-2:] == ["payment.succeeded", "refund.pending"]
    assert "payment.settled" not in kinds
    await execute_beside(shop, tmp_path, OLDER_ENDS)
    await upgrade_finished(shop)
    assert await settled(shop, tmp_path) == [(of.id, 1)]
    assert [kind for _, kind, _ in await deliver_events(shop, LATER_US)] == ["payment.settled"]
    await claims(shop, "0x1", LATER_US)
    assert [kind for _, kind, _ in await deliver_events(shop, LATER_US)] == ["refund.processing"]


async def test_payments_of_before_the_migration_are_filled_in_without_events(shop, tmp_path):
    await add_endpoint(shop)
    await migrated(shop, since_us=LATER_US + 1)
    of = await succeeded(shop)
    await deliver_events(shop, LATER_US)
    await upgrade_finished(shop)
    assert await settled(shop, tmp_path) == [(of.id, 0)]
    assert await claim_deliveries(shop, LATER_US) == []


async def test_payouts_of_an_older_process_settle_the_payments_they_cover(shop, tmp_path):
    await migrated(shop)
    await execute_beside(shop, tmp_path, OLDER_IS_ALIVE)
    of = await owed(shop, 50)
    await leaves(shop, "po_1", 50)
    await ends(shop, "po_1", LATER_US + 1)
    # an older process does not know this row
    await execute_beside(shop, tmp_path, "DELETE FROM covering_payout")
    await leaves(shop, "po_2", 1)
    await ends(shop, "po_2", LATER_US + 2)
    assert await shop.write(covered.settle_covered()) is None
    assert await settled(shop, tmp_path) == []
    await execute_beside(shop, tmp_path, OLDER_ENDS)
    await upgrade_finished(shop)
    await marked(shop)
    assert await settled(shop, tmp_path) == [(of.id, 0)]


async def test_refund_of_the_whole_by_an_older_process_has_its_amount(shop, tmp_path):
    await migrated(shop)
    of = await succeeded(shop)
    await request_refund(shop, of, value=of.option_value)
    await request_refund(shop, await succeeded(shop), "rfnd_2", value=1)
    (back,) = await shop.read(refunds.list_refunds(of.id))
    assert back.payment_value == 0
    await upgrade_finished(shop)
    (back,) = await shop.read(refunds.list_refunds(of.id))
    assert back.payment_value == of.value
    (part,) = await execute_beside(
        shop, tmp_path, "SELECT payment_value FROM refund WHERE id = 'rfnd_2'"
    )
    assert int(part[0]) == 0


async def test_events_of_an_older_process_belong_to_the_first_refund(shop, tmp_path):
    of = await succeeded(shop)
    await request_refund(shop, of)
    await execute_beside(shop, tmp_path, "UPDATE refund_event SET refund_id = ''")
    await request_refund(shop, of, "rfnd_2")
    history = await shop.read(events.list_events(of))
    backs = [event.refund.id for event in history if event.refund is not None]
    assert backs == ["rfnd_1", "rfnd_2"]


async def test_endpoints_get_the_format_once_older_processes_have_ended(shop, tmp_path):
    await add_endpoint(shop)
    await migrated(shop)
    await execute_beside(shop, tmp_path, "UPDATE webhook_endpoint SET version = '2026-02-18'")
    await upgrade_finished(shop)
    assert await execute_beside(shop, tmp_path, "SELECT version FROM webhook_endpoint") == [
        ("2026-05-18",)
    ]


async def test_pages_fill_in_every_payment(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(older_releases, "PAGE", 2)
    await migrated(shop)
    await execute_beside(shop, tmp_path, OLDER_IS_ALIVE)
    ids = {(await succeeded(shop)).id for _ in range(5)}
    await execute_beside(shop, tmp_path, OLDER_ENDS)
    await upgrade_finished(shop)
    assert {payment_id for payment_id, _ in await settled(shop, tmp_path)} == ids
