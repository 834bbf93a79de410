"""Payouts that a reorganisation undoes after they were final: taken back, and paid only once.

The status of a refund never changes once it succeeded; each test ends by asking chain and books.
"""

from __future__ import annotations

import logging

import pytest
from florin_server.domain.errors import FlorinError
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import TxState, Watcher
from florin_server.flows.payouts import payouts as flows
from florin_server.store.ledger import ledger
from florin_server.store.settlement import reorg

from tests.support.evm_lab import CHAIN, MERCHANT, TOKEN, account_of, refuse
from tests.support.payout_lab import BUYER, SHOP, TREASURY_KEY, Office, office
from tests.support.payout_steps import COIN, MOODY, SEND, send_first, waits
from tests.support.settler_steps import DEAR

CONFIRMATIONS = 3


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


async def watched(desk: Office) -> list[str]:
    found = await desk.store.read(reorg.watched(CHAIN, Watcher.PAYOUTS))
    return [one.tx_hash for one in found]


async def owed(desk: Office) -> int:
    """What the merchant owes, by the books."""
    return await desk.store.read(ledger.balance(f"merchant:{SHOP}", TOKEN))


async def look(desk: Office) -> None:
    """The time for a comparison has come."""
    desk.lab.clock.advance(11)
    await desk.turn()


async def undone(desk: Office, done: Payout) -> None:
    """A payout's transaction vanishes."""
    assert done.tx_id is not None
    await desk.lab.reorg(await desk.lab.depth_of(done.tx_id), done.tx_id)
    assert await desk.transfers() == []


async def failed(desk: Office) -> tuple[Payout, str, str]:
    """A payout whose transfer failed on the chain, its transaction, and who refused it."""
    moody = await desk.lab.deploy(MOODY)
    payout = await desk.asked(1000, asset=COIN, account=account_of(moody))
    await desk.lab.pause()
    await desk.turn()
    (sent,) = await desk.transactions()
    await send_first(desk, moody, DEAR)
    await desk.mine(4)
    assert "failed" in await waits(desk, payout)
    return payout, sent.hash, moody


async def test_what_was_done_is_taken_back_told_and_paid_by_the_same_bytes(desk, caplog):
    done = await desk.done(await desk.asked(150))
    told = await desk.refund(done)
    assert await watched(desk) == [done.tx_id]
    await undone(desk, done)
    desk.lab.node.changes = {SEND: refuse(-32000, "not now")}
    with caplog.at_level(logging.ERROR):
        await look(desk)
    assert done.id in caplog.text
    assert done.tx_id in caplog.text
    found = await desk.now(done)
    assert (found.status, found.completed_at_us) == (PayoutStatus.SUBMITTED, None)
    why = "a reorganisation undid its transaction, which is sent again"
    assert await flows.problems(desk.app, CHAIN) == [f"payouts that wait: 1, because {why}"]
    assert await owed(desk) == 0
    assert await desk.store.read(ledger.balance("expense:gas", COIN)) == 0
    await desk.books()
    # what was told as final stays so
    assert await desk.refund(done) == told
    desk.lab.node.changes = {}
    again = await desk.done(done)
    assert again.tx_id == done.tx_id
    assert await desk.refund(done) == told
    assert await desk.transfers() == [150]
    assert await owed(desk) == 150
    assert await flows.problems(desk.app, CHAIN) == []
    assert await watched(desk) == [done.tx_id]


async def test_it_is_sent_again_at_once_even_if_no_block_comes(desk):
    done = await desk.done(await desk.asked(150))
    await undone(desk, done)
    await look(desk)
    assert await desk.transfers() == [150]


async def test_a_process_that_dies_in_between_pays_once(desk):
    done = await desk.done(await desk.asked(150))
    await undone(desk, done)
    desk.lab.node.lost = frozenset({SEND})
    await look(desk)
    await desk.restart()
    desk.lab.node.lost = frozenset()
    await desk.restart()
    assert (await desk.done(done)).tx_id == done.tx_id
    assert await desk.transfers() == [150]


async def test_a_reorganisation_while_nobody_looks_is_found_at_start(desk):
    done = await desk.done(await desk.asked(150))
    await desk.stop()
    await undone(desk, done)
    await desk.start()
    assert (await desk.now(done)).status is PayoutStatus.SUBMITTED
    await desk.done(done)
    assert await desk.transfers() == [150]


async def test_a_payout_that_only_moves_is_booked_where_it_is_now(desk):
    done = await desk.done(await desk.asked(150))
    await desk.lab.reorg(await desk.lab.depth_of(done.tx_id or ""), delay=2)
    await look(desk)
    assert (await desk.now(done)).status is PayoutStatus.SUBMITTED
    assert await owed(desk) == 0
    await desk.done(done)
    assert await desk.transfers() == [150]
    assert await owed(desk) == 150


async def test_a_nonce_that_others_took_meanwhile_lets_it_be_paid_anew_and_told(desk):
    done = await desk.done(await desk.asked(150))
    told = await desk.refund(done)
    await undone(desk, done)
    desk.lab.node.lost = frozenset({SEND})
    await look(desk)
    desk.lab.node.lost = frozenset()
    # the same key in other hands
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    await desk.mine(3)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    # what is told stays as it was until something else has paid
    assert (await desk.now(done)).status is PayoutStatus.WAITING
    assert (await desk.refund(done)).tx_id == done.tx_id
    await desk.resume()
    again = await desk.done(done)
    assert again.tx_id != done.tx_id
    refund = await desk.refund(done)
    assert (refund.status, refund.completed_at_us) == ("succeeded", told.completed_at_us)
    assert refund.tx_id == again.tx_id
    assert await desk.transfers() == [150]


async def test_a_refund_that_had_succeeded_is_not_called_off(desk):
    done = await desk.done(await desk.asked(150))
    await undone(desk, done)
    desk.lab.node.lost = frozenset({SEND})
    await look(desk)
    desk.lab.node.lost = frozenset()
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    await desk.lab.mine(2)
    desk.app.blocked.add([BUYER])
    desk.lab.clock.advance(11)
    await desk.turn(2)
    assert (await desk.now(done)).status is PayoutStatus.WAITING
    assert (await desk.refund(done)).status == "succeeded"
    with pytest.raises(FlorinError, match="succeeded before"):
        await flows.refuse(desk.app, done.id)
    assert (await desk.now(done)).status is PayoutStatus.WAITING


async def test_a_failed_transfer_that_is_undone_is_followed_again_and_not_made_twice(desk):
    payout, sent, _ = await failed(desk)
    await desk.lab.reorg(await desk.lab.depth_of(sent), delay=2)
    await look(desk)
    found = await desk.now(payout)
    assert (found.status, found.tx_id) == (PayoutStatus.SUBMITTED, sent)
    refund = await desk.refund(payout)
    assert (refund.status, refund.tx_id) == ("processing", sent)
    assert await desk.store.read(ledger.balance("expense:gas", COIN)) == 0
    (again,) = await desk.transactions()
    assert (again.hash, again.state in {TxState.SIGNED, TxState.SENT}) == (sent, True)
    await desk.mine(6)
    assert await desk.store.read(ledger.balance("expense:gas", COIN)) > 0
    assert "failed" in await waits(desk, payout)
    await desk.books()


async def test_a_failed_transfer_whose_payout_was_called_off_is_not_sent_again(desk):
    payout, sent, moody = await failed(desk)
    await flows.refuse(desk.app, payout.id)
    await desk.lab.reorg(await desk.lab.depth_of(sent), sent)
    await look(desk)
    assert await desk.transactions() == []
    assert (await desk.now(payout)).status is PayoutStatus.REFUSED
    assert desk.lab.node.asked.count(SEND) == 1
    assert await desk.lab.control.call("eth_getBalance", moody, "latest") == "0x0"


async def test_the_nonce_of_what_must_not_pay_again_is_filled(desk):
    payout, sent, moody = await failed(desk)
    await flows.refuse(desk.app, payout.id)
    await desk.lab.reorg(await desk.lab.depth_of(sent), sent)
    await look(desk)
    # what comes next waits for a nonce that the chain has not seen any more
    await desk.done(await desk.asked(7))
    assert await desk.transfers() == [7]
    assert await desk.lab.control.call("eth_getBalance", moody, "latest") == "0x0"
    assert not await desk.lab.rail.relay.knows(sent)


async def test_what_moved_and_is_deep_enough_is_done_without_another_block(desk):
    done = await desk.done(await desk.asked(150))
    await desk.mine(2)
    await desk.lab.reorg(await desk.lab.depth_of(done.tx_id or ""))
    # another one is in a block that is not final
    other = await desk.asked(7)
    await desk.turn()
    assert await desk.transfers() == [150, 7]
    await look(desk)
    assert (await desk.now(other)).status is PayoutStatus.SUBMITTED
    assert (await desk.now(done)).status is PayoutStatus.SUBMITTED
    await desk.turn()
    assert (await desk.now(done)).status is PayoutStatus.DONE
    await desk.done(other)
    assert await desk.transfers() == [150, 7]


async def test_a_block_that_comes_while_it_looks_back_is_not_passed_over(desk, monkeypatch):
    await desk.done(await desk.asked(150))
    second = await desk.asked(7)
    await desk.turn()
    await desk.mine(CONFIRMATIONS - 2)
    head, asked = desk.lab.rail.observer.head, []

    async def late():
        asked.append(1)
        if len(asked) == 2:
            await desk.lab.mine()
        return await head()

    with monkeypatch.context() as node:
        node.setattr(desk.lab.rail.observer, "head", late)
        await look(desk)
    assert (len(asked) > 1, (await desk.now(second)).status) == (True, PayoutStatus.SUBMITTED)
    await desk.turn()
    assert (await desk.now(second)).status is PayoutStatus.DONE


async def test_the_chain_is_compared_with_what_was_done_now_and_then(desk):
    await desk.done(await desk.asked(150))
    for seconds, asks in ((10, True), (0, False), (9, False), (1, True)):
        desk.lab.clock.advance(seconds)
        desk.lab.node.asked.clear()
        await desk.turn()
        assert bool(desk.lab.node.asked) is asks


async def test_what_merchants_were_paid_is_taken_back_too(desk):
    await desk.owe(500)
    payout = await desk.asked(
        500, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=account_of(MERCHANT)
    )
    done = await desk.done(payout)
    await undone(desk, done)
    desk.lab.node.lost = frozenset({SEND})
    await look(desk)
    assert await owed(desk) == -500
    desk.lab.node.lost = frozenset()
    assert (await desk.done(payout)).tx_id == done.tx_id
    assert await owed(desk) == 0
    assert await desk.lab.balance(MERCHANT) == 500


async def test_what_is_deep_enough_is_watched_no_longer(desk):
    done = await desk.done(await desk.asked(150))
    await desk.mine(2 * CONFIRMATIONS)
    await look(desk)
    assert await watched(desk) == [done.tx_id]
    await desk.mine()
    await look(desk)
    assert await watched(desk) == []
