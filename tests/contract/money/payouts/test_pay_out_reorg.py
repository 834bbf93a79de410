"""Test payouts that a reorganization undoes after finality: reversed, and paid only once.

The status of a refund never changes after it succeeded. Each test ends by checking the chain and
the books.
"""

from __future__ import annotations

import logging

import pytest
from florin_server.domain.errors import ApiError
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import ReorgWatcher, TxState
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.service import payouts as service
from florin_server.money.settlement.store import reorg

from tests.support.evm_harness import CHAIN, MERCHANT, TOKEN, make_refusal, to_account
from tests.support.payout_actions import (
    COIN,
    MOODY,
    SEND,
    get_waiting_reason,
    send_transaction_first,
)
from tests.support.payout_harness import (
    BUYER,
    SHOP,
    TREASURY_KEY,
    PayoutHarness,
    open_payout_harness,
)
from tests.support.settlement_actions import HIGH_FEE

CONFIRMATIONS = 3


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


async def watched(desk: PayoutHarness) -> list[str]:
    watched_txes = await desk.store.read(reorg.list_watched(CHAIN, ReorgWatcher.PAYOUTS))
    return [watched_tx.tx_hash for watched_tx in watched_txes]


async def owed(desk: PayoutHarness) -> int:
    """Return what Florin owes the merchant, according to the books."""
    return await desk.store.read(ledger.get_balance(f"merchant:{SHOP}", TOKEN))


async def look(desk: PayoutHarness) -> None:
    """Advance the clock to the next comparison, and compare."""
    desk.lab.clock.advance(11)
    await desk.turn()


async def undone(desk: PayoutHarness, done: Payout) -> None:
    """Remove a payout's transaction from the chain."""
    assert done.tx_id is not None
    await desk.lab.reorg(await desk.lab.depth_of(done.tx_id), done.tx_id)
    assert await desk.transfers() == []


async def failed(desk: PayoutHarness) -> tuple[Payout, str, str]:
    """Return a payout that failed on the chain, its transaction, and the refusing account."""
    moody = await desk.lab.deploy(MOODY)
    payout = await desk.create_payout(1000, asset=COIN, account=to_account(moody))
    await desk.lab.pause()
    await desk.turn()
    (sent,) = await desk.transactions()
    await send_transaction_first(desk, moody, HIGH_FEE)
    await desk.mine(4)
    assert "failed" in await get_waiting_reason(desk, payout)
    return payout, sent.hash, moody


async def test_reverted_payout_is_reported_and_resent_with_the_same_bytes(desk, caplog):
    done = await desk.wait_done(await desk.create_payout(150))
    result = await desk.refund(done)
    assert await watched(desk) == [done.tx_id]
    await undone(desk, done)
    desk.lab.node.changes = {SEND: make_refusal(-32000, "not now")}
    with caplog.at_level(logging.ERROR):
        await look(desk)
    assert done.id in caplog.text
    assert done.tx_id in caplog.text
    found_result = await desk.get_payout(done)
    assert (found_result.status, found_result.completed_at_us) == (PayoutStatus.SUBMITTED, None)
    why = "a reorganization undid its transaction; Florin sends it again"
    assert await service.list_problems(desk.app, CHAIN) == [f"payouts waiting: 1, because {why}"]
    assert await owed(desk) == 0
    assert await desk.store.read(ledger.get_balance("expense:gas", COIN)) == 0
    await desk.check_books()
    # a status reported as final stays
    assert await desk.refund(done) == result
    desk.lab.node.changes = {}
    again = await desk.wait_done(done)
    assert again.tx_id == done.tx_id
    assert await desk.refund(done) == result
    assert await desk.transfers() == [150]
    assert await owed(desk) == 150
    assert await service.list_problems(desk.app, CHAIN) == []
    assert await watched(desk) == [done.tx_id]


async def test_it_is_sent_again_at_once_even_if_no_block_comes(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await undone(desk, done)
    await look(desk)
    assert await desk.transfers() == [150]


async def test_a_process_that_dies_in_between_pays_once(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await undone(desk, done)
    desk.lab.node.lost_methods = frozenset({SEND})
    await look(desk)
    await desk.restart()
    desk.lab.node.lost_methods = frozenset()
    await desk.restart()
    assert (await desk.wait_done(done)).tx_id == done.tx_id
    assert await desk.transfers() == [150]


async def test_reorg_during_downtime_is_detected_at_startup(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await desk.stop()
    await undone(desk, done)
    await desk.start()
    assert (await desk.get_payout(done)).status is PayoutStatus.SUBMITTED
    await desk.wait_done(done)
    assert await desk.transfers() == [150]


async def test_a_payout_that_only_moves_is_booked_where_it_is_now(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await desk.lab.reorg(await desk.lab.depth_of(done.tx_id or ""), delay=2)
    await look(desk)
    assert (await desk.get_payout(done)).status is PayoutStatus.SUBMITTED
    assert await owed(desk) == 0
    await desk.wait_done(done)
    assert await desk.transfers() == [150]
    assert await owed(desk) == 150


async def test_reverted_payout_with_a_taken_nonce_is_paid_by_a_new_transaction(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    result = await desk.refund(done)
    await undone(desk, done)
    desk.lab.node.lost_methods = frozenset({SEND})
    await look(desk)
    desk.lab.node.lost_methods = frozenset()
    # another user of the same key
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    await desk.mine(3)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    # the reported state stays until another transaction has paid
    assert (await desk.get_payout(done)).status is PayoutStatus.WAITING
    assert (await desk.refund(done)).tx_id == done.tx_id
    await desk.resume()
    again = await desk.wait_done(done)
    assert again.tx_id != done.tx_id
    refund = await desk.refund(done)
    assert (refund.status, refund.completed_at_us) == ("succeeded", result.completed_at_us)
    assert refund.tx_id == again.tx_id
    assert await desk.transfers() == [150]


async def test_a_refund_that_had_succeeded_is_not_called_off(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await undone(desk, done)
    desk.lab.node.lost_methods = frozenset({SEND})
    await look(desk)
    desk.lab.node.lost_methods = frozenset()
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    await desk.lab.mine(2)
    desk.app.blocklist.add([BUYER])
    desk.lab.clock.advance(11)
    await desk.turn(2)
    assert (await desk.get_payout(done)).status is PayoutStatus.WAITING
    assert (await desk.refund(done)).status == "succeeded"
    with pytest.raises(ApiError, match="succeeded before"):
        await service.refuse(desk.app, done.id)
    assert (await desk.get_payout(done)).status is PayoutStatus.WAITING


async def test_reverted_failed_transfer_is_followed_again_and_not_repeated(desk):
    payout, sent, _ = await failed(desk)
    await desk.lab.reorg(await desk.lab.depth_of(sent), delay=2)
    await look(desk)
    result = await desk.get_payout(payout)
    assert (result.status, result.tx_id) == (PayoutStatus.SUBMITTED, sent)
    refund = await desk.refund(payout)
    assert (refund.status, refund.tx_id) == ("processing", sent)
    assert await desk.store.read(ledger.get_balance("expense:gas", COIN)) == 0
    (again,) = await desk.transactions()
    assert (again.hash, again.state in {TxState.SIGNED, TxState.SENT}) == (sent, True)
    await desk.mine(6)
    assert await desk.store.read(ledger.get_balance("expense:gas", COIN)) > 0
    assert "failed" in await get_waiting_reason(desk, payout)
    await desk.check_books()


async def test_a_failed_transfer_whose_payout_was_called_off_is_not_sent_again(desk):
    payout, sent, moody = await failed(desk)
    await service.refuse(desk.app, payout.id)
    await desk.lab.reorg(await desk.lab.depth_of(sent), sent)
    await look(desk)
    assert await desk.transactions() == []
    assert (await desk.get_payout(payout)).status is PayoutStatus.REFUSED
    assert desk.lab.node.methods.count(SEND) == 1
    assert await desk.lab.control.call("eth_getBalance", moody, "latest") == "0x0"


async def test_nonce_of_a_refused_payout_is_filled_after_a_reorg(desk):
    payout, sent, moody = await failed(desk)
    await service.refuse(desk.app, payout.id)
    await desk.lab.reorg(await desk.lab.depth_of(sent), sent)
    await look(desk)
    # the next payout waits for a nonce that the chain no longer knows
    await desk.wait_done(await desk.create_payout(7))
    assert await desk.transfers() == [7]
    assert await desk.lab.control.call("eth_getBalance", moody, "latest") == "0x0"
    assert not await desk.lab.rail.relay.has_transaction(sent)


async def test_moved_transaction_that_is_final_completes_without_a_new_block(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await desk.mine(2)
    await desk.lab.reorg(await desk.lab.depth_of(done.tx_id or ""))
    # another transaction is in a block that is not final
    other = await desk.create_payout(7)
    await desk.turn()
    assert await desk.transfers() == [150, 7]
    await look(desk)
    assert (await desk.get_payout(other)).status is PayoutStatus.SUBMITTED
    assert (await desk.get_payout(done)).status is PayoutStatus.SUBMITTED
    await desk.turn()
    assert (await desk.get_payout(done)).status is PayoutStatus.DONE
    await desk.wait_done(other)
    assert await desk.transfers() == [150, 7]


async def test_a_block_that_comes_while_it_looks_back_is_not_passed_over(desk, monkeypatch):
    await desk.wait_done(await desk.create_payout(150))
    second = await desk.create_payout(7)
    await desk.turn()
    await desk.mine(CONFIRMATIONS - 2)
    head, requests = desk.lab.rail.observer.get_head, []

    async def late():
        requests.append(1)
        if len(requests) == 2:
            await desk.lab.mine()
        return await head()

    with monkeypatch.context() as node:
        node.setattr(desk.lab.rail.observer, "get_head", late)
        await look(desk)
    assert (len(requests) > 1, (await desk.get_payout(second)).status) == (
        True,
        PayoutStatus.SUBMITTED,
    )
    await desk.turn()
    assert (await desk.get_payout(second)).status is PayoutStatus.DONE


async def test_completed_payouts_are_compared_with_the_chain_every_ten_seconds(desk):
    await desk.wait_done(await desk.create_payout(150))
    for seconds, asks in ((10, True), (0, False), (9, False), (1, True)):
        desk.lab.clock.advance(seconds)
        desk.lab.node.methods.clear()
        await desk.turn()
        assert bool(desk.lab.node.methods) is asks


async def test_reverted_merchant_payout_is_unbooked(desk):
    await desk.book_owed(500)
    payout = await desk.create_payout(
        500, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=to_account(MERCHANT)
    )
    done = await desk.wait_done(payout)
    await undone(desk, done)
    desk.lab.node.lost_methods = frozenset({SEND})
    await look(desk)
    assert await owed(desk) == -500
    desk.lab.node.lost_methods = frozenset()
    assert (await desk.wait_done(payout)).tx_id == done.tx_id
    assert await owed(desk) == 0
    assert await desk.lab.balance(MERCHANT) == 500


async def test_payout_deep_enough_is_no_longer_watched(desk):
    done = await desk.wait_done(await desk.create_payout(150))
    await desk.mine(2 * CONFIRMATIONS)
    await look(desk)
    assert await watched(desk) == [done.tx_id]
    await desk.mine()
    await look(desk)
    assert await watched(desk) == []
