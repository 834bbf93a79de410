"""Test the events of money at payments' addresses: one for each deposit and each return."""

from __future__ import annotations

import pytest
from florin_server.domain.payments.deposits import DepositReport
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.features.webhooks.store import replays
from florin_server.features.webhooks.store.replays import ReplayPosition, ReplayRequest
from florin_server.money.outbox.store import events
from florin_server.money.payments.store import deposit_events, deposits
from florin_server.money.payments.store.deposit_events import SEEN_MAX, NamedReport

from tests.support.evm_harness import TOKEN
from tests.support.settled_addresses import (
    FORWARDER,
    PRICE,
    find_transaction,
    look,
    open_address,
    run_to_end,
)
from tests.support.settlement_harness import open_settlement_harness
from tests.support.webhook_rows import make_endpoint

SEEN, RETURNED = "payment.deposit_seen", "payment.deposit_returned"


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path, forwarder=FORWARDER) as running:
        yield running


async def list_events(shop, payment_id):
    payment = await shop.store.payments.find(payment_id)
    return await shop.store.read(events.list_events(payment))


async def list_reports(shop, payment_id):
    """Return type, value and totals of the events of deposits."""
    return [
        (event.event_type, report.value, report.received, report.missing, report.over)
        for event in await list_events(shop, payment_id)
        if (report := event.deposit) is not None
    ]


def make_report(payment_id, name, cause=PaymentStateEvent.DEPOSIT_SEEN, value=1):
    address = "eip155:1:0x" + "aa" * 20
    report = DepositReport(address, TOKEN, value, None, name, True, TOKEN, value, 0, 0)
    return NamedReport(payment_id, name, cause, report)


async def record(shop, *reports, at_us=None):
    now_us = at_us or shop.lab.clock.now_us()
    return await shop.store.write(deposit_events.record(reports, now_us))


async def test_each_part_is_reported_once_with_the_totals_after_it(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, 400_000)
    await look(shop, 6)
    await shop.restart()
    await look(shop, 2)
    await shop.lab.send_tokens(address, PRICE)
    await run_to_end(shop, payment)
    assert await list_reports(shop, payment.id) == [
        (SEEN, 400_000, 400_000, PRICE - 400_000, 0),
        (SEEN, PRICE, PRICE + 400_000, 0, 400_000),
    ]
    stored = await list_events(shop, payment.id)
    assert [event.event_type for event in stored][:4] == [
        "payment.created",
        SEEN,
        SEEN,
        "payment.processing",
    ]
    assert [event.place for event in stored] == list(range(len(stored)))


async def test_deposit_that_a_reorganization_moves_is_reported_once(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, 400_000)
    await look(shop)
    tx_hash = await find_transaction(shop, payment)
    # its transaction is mined again, in another block
    await shop.lab.reorg(2)
    await look(shop, 5)
    (stored,) = await shop.store.read(deposits.list_of_payment(payment.id))
    assert (stored.deposit.tx_hash, stored.is_final) == (tx_hash, 1)
    (event,) = [event for event in await list_events(shop, payment.id) if event.deposit]
    assert (event.deposit.tx_hash, event.deposit.is_final) == (tx_hash, False)


async def test_event_after_the_end_keeps_the_places_of_earlier_events(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    await run_to_end(shop, payment)
    before = await list_events(shop, payment.id)
    assert await record(shop, make_report(payment.id, "late")) == []
    assert await record(shop, make_report(payment.id, "late")) == []
    returned = make_report(payment.id, "pout_1", PaymentStateEvent.DEPOSIT_RETURNED)
    assert await record(shop, returned) == []
    after = await list_events(shop, payment.id)
    assert after[: len(before)] == before
    assert [(event.place, event.event_type) for event in after[len(before) :]] == [
        (len(before), SEEN),
        (len(before) + 1, RETURNED),
    ]


async def test_dust_ends_reports_of_deposits_but_not_of_returns(shop):
    payment, _ = await open_address(shop)
    await record(shop, *(make_report(payment.id, f"0x{n}") for n in range(SEEN_MAX + 5)))
    assert len(await list_reports(shop, payment.id)) == SEEN_MAX
    await record(shop, make_report(payment.id, "pout_1", PaymentStateEvent.DEPOSIT_RETURNED))
    assert (await list_reports(shop, payment.id))[-1][0] == RETURNED


async def test_replay_since_a_time_finds_events_of_deposits(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    ended = await run_to_end(shop, payment)
    since_us = ended.updated_at_us + 1_000_000
    await record(shop, make_report(payment.id, "late"), at_us=since_us + 1)
    endpoint = make_endpoint(
        events=frozenset({SEEN}), partner_id=ended.partner_id, merchant_id=ended.merchant_id
    )
    request = ReplayRequest(since_us, frozenset({SEEN}), "pay_", is_filtered=False)
    count, _ = await shop.store.write(
        replays.replay_page(endpoint, request, ReplayPosition("pay_"), since_us + 2)
    )
    assert count == 1
