"""Test the books of wallets: the start, explained differences, and when Florin stops sending."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger import worker as keep_books
from florin_server.money.ledger.service import books
from florin_server.money.ledger.service.books import ReconciliationStatus
from florin_server.money.ledger.store import books as stored
from florin_server.money.ledger.store import ledger
from florin_server.money.ledger.worker import BookKeeper
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import CHAIN, EURO, TOKEN, make_refusal, make_reply
from tests.support.payout_harness import BUYER, FLOAT, SHOP, TREASURY, open_payout_harness
from tests.support.until import wait_until

COIN = f"{CHAIN}/slip44:60"
WALLET = f"{CHAIN}:{TREASURY.address}"
PLACE = (WALLET, TOKEN)


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


async def line(desk, place=PLACE) -> books.ReconciliationLine:
    reconciliation = await books.reconcile(desk.app)
    (this_line,) = [each_line for each_line in reconciliation.lines if each_line.wallet == place]
    return this_line


@asynccontextmanager
async def run_book_keeper(desk):
    """Keep the books in the background."""
    task = asyncio.create_task(BookKeeper(desk.app, desk.lab.rail).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def passing(desk):
    """Advance the clock past the next comparison of the books, on each call."""

    async def move() -> None:
        desk.lab.clock.advance(301)

    return move


async def begin(desk) -> bool:
    await desk.lab.mine(desk.lab.rail.confirmations)
    return await books.record_opening_balances(desk.app, desk.lab.rail)


async def test_books_open_with_the_current_holdings_and_only_once(desk):
    assert (await line(desk)).status is ReconciliationStatus.NOT_BEGUN
    assert await begin(desk)
    first = await line(desk)
    assert (first.status, first.booked_balance) == (ReconciliationStatus.EXACT, FLOAT)
    # later transfers are not part of the start
    await desk.lab.send_tokens(TREASURY.address, 9)
    assert await begin(desk)
    after = await line(desk)
    assert (after.status, after.difference) == (ReconciliationStatus.UNBOOKED, 9)
    assert await desk.store.read(ledger.check()) == []
    assert await desk.store.read(ledger.get_balance("external:opening", TOKEN)) == -FLOAT


async def test_empty_wallet_is_opened_too(desk):
    # the operator accepts one more token
    assert await begin(desk)
    assets = dict(desk.lab.rail.assets)
    euro = replace(assets[TOKEN], id=EURO, address=EURO.rpartition(":")[2])
    desk.lab.rail.inspection = replace(desk.lab.rail.inspection, assets={**assets, EURO: euro})
    assert (await line(desk, (WALLET, EURO))).status is ReconciliationStatus.NOT_BEGUN
    assert await begin(desk)
    for place in ((f"{CHAIN}:{desk.lab.rail.senders[0]}", COIN), (WALLET, EURO)):
        found_line = await line(desk, place)
        assert (found_line.status, found_line.has_opening_balance) == (
            ReconciliationStatus.EXACT,
            True,
        )
    assert found_line.chain_balance == 0
    assert await desk.store.read(ledger.check()) == []


async def test_bookings_before_the_opening_are_not_counted_twice(desk):
    # an installation from before the books existed
    await desk.book_owed(150)
    assert await begin(desk)
    assert (await line(desk)).status is ReconciliationStatus.EXACT
    assert await desk.store.read(ledger.get_balance("external:opening", TOKEN)) == 150 - FLOAT


async def test_money_missing_before_the_opening_is_reported(desk):
    await desk.book_owed(FLOAT + 1)
    assert not await begin(desk)
    found_line = await line(desk)
    assert (found_line.status, found_line.difference) == (ReconciliationStatus.MISSING, -1)


async def test_books_do_not_begin_where_something_is_on_its_way(desk):
    await desk.lab.pause()
    payout = await desk.create_payout(150)
    await desk.turn()
    assert (await desk.get_payout(payout)).status is PayoutStatus.SUBMITTED
    assert not await books.record_opening_balances(desk.app, desk.lab.rail)
    found_line = await line(desk)
    assert (found_line.has_opening_balance, found_line.outgoing) == (False, 150)
    await desk.wait_done(payout)
    assert await begin(desk)
    for place in (PLACE, (WALLET, COIN)):
        assert (await line(desk, place)).status is ReconciliationStatus.EXACT


async def test_books_that_waited_begin_soon_after_the_work_under_way_ended(desk):
    await desk.lab.pause()
    payout = await desk.create_payout(150)
    await desk.turn()
    async with run_book_keeper(desk):
        await wait_until(lambda: desk.app.chains[CHAIN].reconciled_at_us > 0)
        assert (await line(desk)).status is ReconciliationStatus.NOT_BEGUN
        await desk.wait_done(payout)
        await desk.lab.mine(desk.lab.rail.confirmations)
        # before the next comparison of the books
        desk.lab.clock.advance(desk.app.settings.books_check_s / 2)

        async def opened() -> bool:
            return (await line(desk)).has_opening_balance

        await wait_until(opened)
    found_line = await line(desk)
    assert (found_line.status, found_line.booked_balance) == (
        ReconciliationStatus.EXACT,
        FLOAT - 150,
    )


async def test_a_payout_explains_a_difference_up_to_its_amount_and_no_more(desk):
    assert await begin(desk)
    await desk.lab.pause()
    await desk.create_payout(150)
    await desk.turn()
    found_line = await line(desk)
    assert (found_line.status, found_line.outgoing) == (ReconciliationStatus.EXACT, 150)
    for held, verdict in (
        (FLOAT - 150, ReconciliationStatus.UNDER_WAY),
        (FLOAT - 151, ReconciliationStatus.MISSING),
        (FLOAT + 1, ReconciliationStatus.UNBOOKED),
    ):
        assert replace(found_line, chain_balance=held).status is verdict
    # in coin, the transaction's final cost is unknown
    assert (await line(desk, (WALLET, COIN))).is_busy


async def test_lagging_node_leaves_holdings_unread(desk):
    assert await begin(desk)
    with pytest.raises(RailUnavailable):
        await desk.lab.rail.observer.read_holdings([PLACE], 10**6)
    await desk.lab.mine()
    # a new worker sees the newest block, then asks a node that does not have it yet
    await desk.restart()
    desk.lab.node.changes["eth_blockNumber"] = make_reply(hex(desk.worker.head - 1))
    reconciliation = await books.reconcile(desk.app)
    assert list(reconciliation.read_failures) == [CHAIN]
    assert {each_line.status for each_line in reconciliation.lines} == {
        ReconciliationStatus.NOT_READ
    }


async def test_node_that_lacks_the_block_of_a_booked_payout_leaves_holdings_unread(
    desk, monkeypatch
):
    """Another process has sent it, and this one has seen no block."""
    assert await begin(desk)
    await desk.wait_done(await desk.create_payout(150))
    monkeypatch.setattr(type(desk.worker), "seen_block", 0)
    chains = books.get_ledger_chains([desk.lab.rail])
    block = (await desk.store.scan(stored.read_snapshot(chains))).newest_blocks[CHAIN]
    desk.lab.node.changes["eth_blockNumber"] = make_reply(hex(block - 1))
    assert (await line(desk)).status is ReconciliationStatus.NOT_READ
    desk.lab.node.changes.clear()
    assert (await line(desk)).status is ReconciliationStatus.EXACT


async def test_nothing_is_sent_before_the_books_begin(desk, monkeypatch, caplog):
    monkeypatch.setattr(keep_books, "_RETRY_S", 0.01)
    chain = desk.app.chains[CHAIN]
    chain.has_opening_balances = False
    desk.lab.node.changes["eth_getBalance"] = make_refusal(-32005, "too many requests")
    # before the first look: the books start with the balance at a final block
    await desk.lab.mine(desk.lab.rail.confirmations)
    payout = await desk.create_payout(150)
    async with run_book_keeper(desk):
        await wait_until(lambda: f"the ledger of {CHAIN} waits" in caplog.text)
        await desk.turn(2)
        assert (await desk.get_payout(payout)).status is PayoutStatus.WAITING
        desk.lab.node.changes.clear()
        await wait_until(lambda: chain.has_opening_balances)
    await desk.wait_done(payout)
    assert (await line(desk)).status is ReconciliationStatus.EXACT


async def test_return_of_received_money_is_sent_despite_merchant_debt(desk):
    spent = LedgerPosting(f"merchant:{SHOP}", f"wallet:{WALLET}", TOKEN, 500)
    await desk.store.write(ledger.post("refund:old", "refund", None, None, (spent,), 0))
    came = LedgerPosting(f"wallet:{WALLET}", f"merchant:{SHOP}", TOKEN, 150)
    await desk.store.write(ledger.post("late:pay_1:0x1:0x2", "late", "pay_1", "0x1", (came,), 0))
    kind = {"kind": PayoutKind.RETURN, "live": True}
    here = await desk.create_payout(150, id="pout_1", backed=True, **kind)
    past = await desk.create_payout(150, id="pout_2", **kind)
    await desk.wait_done(here)
    assert await desk.transfers(BUYER) == [150]
    desk.lab.clock.advance(61)
    await desk.turn()
    # money that bypassed Florin is returned like a refund
    assert "lack 650 minor units" in ((await desk.get_payout(past)).problem or "")
    assert await desk.store.read(ledger.get_balance(f"merchant:{SHOP}", TOKEN)) == 500


async def test_the_keeper_raises_the_alarm_and_takes_it_back(desk, caplog):
    await desk.lab.mine(desk.lab.rail.confirmations)
    later = passing(desk)
    async with run_book_keeper(desk):
        output = f"{WALLET} holds 3 minor units of {TOKEN} less than the ledger says"
        chain = desk.app.chains[CHAIN]
        chain.shortfall = output
        await wait_until(lambda: chain.shortfall, "", meanwhile=later)
        lost = LedgerPosting(f"wallet:{WALLET}", "external:x", TOKEN, 3)
        await desk.store.write(ledger.post("planted", "settle", None, None, (lost,), 0))
        await wait_until(lambda: chain.shortfall, output, meanwhile=later)
        assert output in caplog.text
        await desk.store.write(ledger.reverse("planted", 0))
        await wait_until(lambda: chain.shortfall, "", meanwhile=later)
