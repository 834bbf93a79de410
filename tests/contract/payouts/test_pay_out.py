"""From a payout that is asked for to its end, whatever happens to chain, node or process.

No contract would refuse a second transfer, so each test ends by counting those on the chain.
"""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.boot.app import app_of, core_of
from florin_server.chains.evm import abi
from florin_server.devnet.genesis import DEVNET
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import Posting, TxState
from florin_server.flows.payouts import payouts as flows
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts

from tests.support.evm_lab import CHAIN, ETHER, EURO, MERCHANT, TOKEN, account_of, refuse, reply
from tests.support.hostile import BURNS_FOR_A_PRICE
from tests.support.payout_lab import BUYER, FLOAT, SHOP, TREASURY, TREASURY_KEY, office
from tests.support.payout_steps import COIN, MOODY, RECEIPT, SEND, send_first, waits, with_logs

# stores twenty words for whoever sends it coin
GREEDY = "".join(f"600160{n:02x}55" for n in range(20))


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


def attempts(desk) -> dict[str, float]:
    """How many transactions of payouts ended, by what came of it."""
    return {
        one.labels["outcome"]: one.value
        for family in desk.app.meters.registry.collect()
        for one in family.samples
        if (one.name, one.labels.get("chain")) == ("florin_payout_attempts_total", CHAIN)
        and one.value
    }


# the usual way


async def test_a_refund_ends_at_final_depth_and_not_before(desk, monkeypatch):
    spans: list[tuple[Any, ...]] = []
    monkeypatch.setattr(type(desk.app.traces), "whole", lambda _, *told: spans.append(told))
    payout = await desk.asked(150)
    before = (await desk.refund(payout)).version
    await desk.turn(2)
    # mined at once; the chain's settings ask for three blocks
    assert await desk.lab.balance(BUYER) == 150
    for _ in range(2):
        found, refund = await desk.now(payout), await desk.refund(payout)
        assert (found.status, refund.status) == (PayoutStatus.SUBMITTED, "processing")
        assert (refund.tx_id, refund.version) == (found.tx_id, before + 1)
        assert refund.completed_at_us is None
        await desk.mine()
    found, refund = await desk.now(payout), await desk.refund(payout)
    assert (found.status, refund.status) == (PayoutStatus.DONE, "succeeded")
    assert refund.version == before + 2
    assert refund.completed_at_us == found.completed_at_us == desk.lab.clock.now_us()
    assert spans == [(payout.id, "payout", payout.created_at_us, found.completed_at_us)]
    assert attempts(desk) == {"done": 1}
    receipt = await desk.lab.control.call(RECEIPT, found.tx_id)
    assert receipt["from"].lower() == TREASURY.address
    assert await desk.transfers() == [150]
    read = desk.store.read
    treasury = f"wallet:{desk.lab.rail.treasury}"
    assert await read(ledger.balance(f"merchant:{SHOP}", TOKEN)) == 150
    assert await read(ledger.balance(treasury, TOKEN)) == -150
    gas = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    assert await read(ledger.balance("expense:gas", COIN)) == gas
    assert await read(ledger.balance(treasury, COIN)) == -gas
    await desk.books()


async def test_several_payouts_are_on_their_way_at_once(desk):
    asked = [await desk.asked(100 + n) for n in range(4)]
    await desk.turn()
    assert [tx.nonce for tx in await desk.transactions()] == [0, 1, 2, 3]
    for payout in asked:
        await desk.done(payout)
    assert await desk.transfers() == [100, 101, 102, 103]


async def test_a_balance_goes_where_the_merchant_wants_it(desk):
    await desk.owe(500)
    payout = await desk.asked(
        500, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=account_of(MERCHANT)
    )
    await desk.done(payout)
    assert await desk.lab.balance(MERCHANT) == 500
    assert await desk.store.read(ledger.balance(f"merchant:{SHOP}", TOKEN)) == 0


async def test_coin_is_paid_out_and_its_gas_booked(desk):
    before = await desk.lab.control.call("eth_getBalance", TREASURY.address, "latest")
    await desk.done(await desk.asked(10**15, asset=COIN))
    assert await desk.lab.control.call("eth_getBalance", BUYER, "latest") == hex(10**15)
    left = int(await desk.lab.control.call("eth_getBalance", TREASURY.address, "latest"), 16)
    gas = await desk.store.read(ledger.balance("expense:gas", COIN))
    assert int(before, 16) - left == 10**15 + gas


# what waits for a block


async def test_a_payout_after_a_long_rest_offers_more_only_when_blocks_passed_since(desk):
    await desk.turn()
    # nothing is on its way: nobody looks at the chain
    await desk.lab.mine(20)
    await desk.lab.pause()
    payout = await desk.asked(150)
    await desk.turn(4)
    (waiting,) = await desk.transactions()
    assert (waiting.bumps, waiting.state) == ((), TxState.SENT)
    await desk.fault(kind="baseFee", wei=hex(40 * 10**9))
    await desk.mine(2)
    assert [tx.bumps for tx in await desk.transactions()] == [()]
    await desk.mine()
    (raised,) = await desk.transactions()
    assert len(raised.bumps) == 1
    assert (await desk.done(payout)).tx_id == raised.bumps[0].hash
    assert await desk.transfers() == [150]


# once and only once


async def test_a_process_that_dies_before_the_broadcast_pays_once(desk):
    payout = await desk.asked()
    desk.lab.node.lost = frozenset({SEND})
    await desk.turn()
    (signed,) = await desk.transactions()
    assert (signed.state, await desk.transfers()) == (TxState.SIGNED, [])
    desk.lab.node.lost = frozenset()
    await desk.restart()
    assert (await desk.done(payout)).tx_id == signed.hash
    assert await desk.worker.may_repeat(signed)
    assert await desk.transfers() == [150]


async def test_a_process_that_dies_after_the_broadcast_pays_once(desk):
    payout = await desk.asked()
    await desk.turn()
    (sent,) = await desk.transactions()
    for _ in range(3):
        await desk.restart()
    assert (await desk.done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


@pytest.mark.parametrize("effect", ["error", "late_error", "null", "drop"])
async def test_an_error_on_send_is_no_answer(desk, effect):
    await desk.fault(kind="answer", method=SEND, effect=effect, times=2)
    payout = await desk.asked()
    await desk.turn(2)
    (sent,) = await desk.transactions()
    assert (await desk.done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


async def test_what_the_pool_lost_is_sent_again_even_if_no_block_comes(desk):
    await desk.lab.pause()
    payout = await desk.asked()
    await desk.turn(2)
    (sent,) = await desk.transactions()
    await desk.fault(kind="evict", transactions=[sent.hash])
    desk.lab.clock.advance(11)
    await desk.turn()
    assert await desk.lab.rail.relay.knows(sent.hash)
    assert (await desk.done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


async def test_receipts_that_are_null_prove_nothing(desk):
    """Its nonce is used at final depth, and by itself."""
    payout = await desk.asked()
    desk.lab.node.changes = {RECEIPT: reply(None)}
    await desk.turn()
    for _ in range(6):
        desk.lab.clock.advance(11)
        await desk.mine()
    assert (await desk.now(payout)).status is PayoutStatus.SUBMITTED
    desk.lab.node.changes = {}
    await desk.done(payout)
    assert await desk.transfers() == [150]


async def test_a_transaction_whose_nonce_another_took_is_made_anew(desk, caplog):
    await desk.fault(kind="answer", method=SEND, effect="drop", times=1)
    payout = await desk.asked()
    await desk.turn()
    (lost,) = await desk.transactions()
    # the same key in other hands
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    desk.lab.clock.advance(11)
    await desk.turn()
    assert (await desk.now(payout)).tx_id == lost.hash
    await desk.lab.mine(2)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    # whoever has the key may have paid it: the operator decides
    assert (await desk.now(payout)).status is PayoutStatus.WAITING
    assert "has nonce 0" in desk.behind()
    await desk.resume()
    done = await desk.done(payout)
    assert done.tx_id != lost.hash
    (told,) = [
        one for one in caplog.records if lost.hash in one.message and payout.id in one.message
    ]
    what = f"its transaction {lost.hash} was replaced by another one"
    assert (told.levelname, told.message) == ("ERROR", f"payout {payout.id}: {what}")
    # not even if a deep reorganisation freed the nonce again
    assert not await desk.worker.may_repeat(lost)
    assert await desk.transfers() == [150]


async def test_a_nonce_that_was_taken_long_ago_is_found(desk):
    await desk.fault(kind="answer", method=SEND, effect="drop", times=1)
    await desk.lab.mine(7)
    payout = await desk.asked()
    await desk.turn()
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    await desk.lab.mine(40)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    await desk.resume()
    await desk.done(payout)
    assert await desk.transfers() == [150]


async def test_a_reorganisation_below_final_depth_moves_the_proof(desk):
    payout = await desk.asked()
    await desk.turn(2)
    await desk.mine()
    (sent,) = await desk.transactions()
    await desk.lab.reorg(2, delay=1)
    await desk.turn()
    assert (await desk.now(payout)).status is PayoutStatus.SUBMITTED
    assert (await desk.done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


async def test_a_transfer_that_fails_on_chain_waits_again(desk):
    moody = await desk.lab.deploy(MOODY)
    payout = await desk.asked(1000, asset=COIN, account=account_of(moody))
    await desk.lab.pause()
    await desk.turn()
    (sent,) = await desk.transactions()
    # it refuses coin from the very block on that the transfer comes in
    from tests.support.settler_steps import DEAR

    await send_first(desk, moody, DEAR)
    await desk.mine(4)
    assert (await desk.lab.control.call(RECEIPT, sent.hash))["status"] == "0x0"
    assert await waits(desk, payout) == f"its transaction {sent.hash} failed"
    assert attempts(desk) == {"again": 1}
    assert await desk.store.read(ledger.balance("expense:gas", COIN)) > 0
    desk.lab.clock.advance(61)
    await desk.turn()
    assert "would fail" in await waits(desk, payout)
    assert await desk.lab.control.call("eth_getBalance", moody, "latest") == "0x0"
    await desk.books()


async def test_a_receiver_that_wants_transfers_to_fail_gets_few_of_them(desk):
    """It takes coin when it is asked, and burns gas when it is sent some."""
    burns = await desk.lab.deploy(BURNS_FOR_A_PRICE)
    payout = await desk.asked(1000, asset=COIN, account=account_of(burns))
    sent = desk.lab.node.asked.count(SEND)

    async def waiting() -> bool:
        return (await desk.now(payout)).status is PayoutStatus.WAITING

    for _ in range(48):
        await desk.turn(2)
        await desk.mine_until(waiting)
        desk.lab.clock.advance(1800)
    # after a minute, half an hour, an hour, two, four, and so on
    assert 3 <= desk.lab.node.asked.count(SEND) - sent <= 8
    await desk.books()


@pytest.mark.parametrize(
    "change",
    [
        lambda _: [],
        lambda receipt: receipt["logs"] * 2,
        lambda receipt: [{**receipt["logs"][0], "data": "0x" + f"{149:064x}"}],
        lambda receipt: [{**receipt["logs"][0], "address": MERCHANT}],
    ],
)
async def test_what_is_not_proven_is_neither_done_nor_repeated(desk, change):
    payout = await desk.asked()
    desk.lab.node.changes = {RECEIPT: with_logs(change)}
    await desk.turn()
    await desk.mine(4)
    found = await desk.now(payout)
    assert found.status is PayoutStatus.SUBMITTED
    assert "not proven" in (found.problem or "")
    assert attempts(desk) == {"unproven": 1}
    assert await desk.transactions() == []
    desk.lab.node.changes = {}
    await desk.restart()
    desk.lab.clock.advance(3600)
    await desk.mine(4)
    assert (await desk.now(payout)).status is PayoutStatus.SUBMITTED
    assert await desk.transfers() == [150]


# money that is not there


async def test_a_treasury_that_is_short_sends_nothing_until_it_is_filled(desk):
    payout = await desk.asked(FLOAT + 5)
    await desk.turn(3)
    assert "lacks 5 minor units" in await waits(desk, payout)
    assert desk.lab.node.asked.count(SEND) == 0
    await desk.lab.send_tokens(TREASURY.address, 5)
    await desk.turn()
    assert await waits(desk, payout)
    desk.lab.clock.advance(5)
    await desk.turn()
    await desk.done(payout)
    assert await desk.transfers() == [FLOAT + 5]


async def test_what_is_on_its_way_is_spent(desk):
    await desk.lab.pause()
    first, second = await desk.asked(FLOAT - 100), await desk.asked(101)
    await desk.turn()
    assert (await desk.now(first)).status is PayoutStatus.SUBMITTED
    assert "lacks 1 minor units" in await waits(desk, second)


async def test_a_treasury_without_coin_for_gas_sends_nothing(desk):
    left = int(await desk.lab.control.call("eth_getBalance", TREASURY.address, "latest"), 16)
    price = 10**11
    fee = {"gas": 21_000, "maxFeePerGas": price, "maxPriorityFeePerGas": price}
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=left - 21_000 * price, **fee)
    for asset, what in ((TOKEN, "wei for gas"), (COIN, "wei")):
        payout = await desk.asked(ETHER if asset == COIN else 1, asset=asset)
        await desk.turn()
        assert what in await waits(desk, payout)
    assert desk.lab.node.asked.count(SEND) == 0


async def test_a_receiver_cannot_make_the_treasury_burn_gas(desk):
    greedy = await desk.lab.deploy(GREEDY)
    payout = await desk.asked(1, asset=COIN, account=account_of(greedy))
    await desk.turn()
    assert "more than the 300000 that are paid" in await waits(desk, payout)


async def test_a_token_that_is_no_contract_of_ours_reverts_and_waits(desk):
    payout = await desk.asked(1, asset=EURO)
    await desk.turn()
    # the treasury holds none of it
    assert "lacks 1 minor units" in await waits(desk, payout)


# who may be paid


async def test_a_receiver_whom_the_token_refuses_waits_and_the_tokens_words_are_told(desk):
    frozen = abi.selector("blacklist(address)") + abi.address(BUYER)
    await desk.lab.send(to=DEVNET.token.address, data=frozen)
    payout = await desk.asked(150)
    await desk.turn(2)
    told = await waits(desk, payout)
    assert told == "the transfer would fail: TestDollar: account is frozen"
    assert desk.lab.node.asked.count(SEND) == 0


async def test_a_blocked_account_is_not_sent_anything_until_it_is_free(desk):
    payout = await desk.asked()
    desk.app.blocked.add([BUYER])
    await desk.turn(2)
    assert await waits(desk, payout) == "the account that it goes to is blocked"
    # the settings of the next process do not name it
    await desk.restart()
    desk.lab.clock.advance(5)
    await desk.done(payout)
    assert await desk.transfers() == [150]


async def test_a_live_refund_waits_until_the_merchant_is_owed_as_much(desk):
    payout = await desk.asked(150, live=True)
    other = await desk.asked(10, live=True, merchant_id="mrch_other")
    await desk.owe(149)
    await desk.owe(9, merchant="mrch_other")
    await desk.turn(2)
    for one in (payout, other):
        assert "lack 1 minor units" in await waits(desk, one)
    await desk.owe(1)
    desk.lab.clock.advance(5)
    await desk.done(payout)
    assert await waits(desk, other)
    assert await desk.transfers() == [150]
    assert await desk.store.read(ledger.balance(f"merchant:{SHOP}", TOKEN)) == 0


async def test_two_live_refunds_do_not_share_one_balance(desk):
    await desk.owe(150)
    first, second = await desk.asked(100, live=True), await desk.asked(100, live=True)
    await desk.turn()
    assert (await desk.now(first)).status is PayoutStatus.SUBMITTED
    assert "lack 50 minor units" in await waits(desk, second)
    await desk.done(first)
    desk.lab.clock.advance(61)
    await desk.turn(2)
    assert "lack 50 minor units" in await waits(desk, second)


async def test_a_balance_that_shrinks_while_it_is_signed_for_is_not_overdrawn(desk, monkeypatch):
    await desk.owe(150)
    treasury = desk.lab.rail.payouts
    sign = treasury.sign

    async def slow(nonce, transfer):
        gone = Posting(f"merchant:{SHOP}", f"wallet:{desk.lab.rail.treasury}", TOKEN, 1)
        await desk.store.write(ledger.post("payout:1", "payout", None, None, (gone,), 0))
        return await sign(nonce, transfer)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(treasury, "sign", slow)
        payout = await desk.asked(150, live=True)
        await desk.turn()
    assert "lack 1 minor units" in await waits(desk, payout)
    await desk.mine(3)
    assert await desk.transfers() == []


# outages


async def test_payouts_wait_while_the_node_is_away(desk):
    payout = await desk.asked()
    node = desk.lab.node
    everything = ("eth_getBalance", "eth_call", "eth_estimateGas", "eth_getBlockByNumber")
    node.changes = dict.fromkeys(everything, refuse(-32603, "overloaded"))
    await desk.turn()
    assert desk.worker.health().problem
    assert await waits(desk, payout)
    node.changes = {}
    node.lost = frozenset({*everything, "eth_blockNumber"})
    desk.lab.clock.advance(10)
    await desk.turn()
    assert await waits(desk, payout)
    node.lost = frozenset()
    desk.lab.clock.advance(10)
    await desk.done(payout)
    assert desk.worker.health().problem == ""
    assert await desk.transfers() == [150]


async def test_a_paused_treasury_sends_nothing_and_follows_what_it_sent(desk):
    first = await desk.asked()
    await desk.turn()
    desk.worker.sender.pause()
    second = await desk.asked(7)
    for _ in range(4):
        await desk.mine()
    assert (await desk.now(first)).status is PayoutStatus.DONE
    assert await waits(desk, second) == ""
    assert desk.worker.health().problem == "payouts: paused by the operator"
    desk.worker.sender.resume()
    await desk.done(second)
    assert await desk.transfers() == [150, 7]


async def test_a_chain_without_its_treasurys_key_says_so(desk):
    payout = await desk.asked()
    assert await flows.problems(desk.app, CHAIN) == []
    desk.lab.rail.payouts = None
    (told,) = await flows.listed(desk.app, all_=False)
    assert (told.id, told.problem) == (payout.id, "the treasury's key on this chain is not here")
    why = f"payouts that wait: 1, because {told.problem}"
    assert await flows.problems(desk.app, CHAIN) == [why]
    # the command line works without chains, too
    nowhere = app_of(core_of(desk.app.settings, desk.store, desk.lab.clock, ()))
    assert [one.problem for one in await flows.listed(nowhere, all_=True)] == [None]


async def test_a_key_that_is_not_the_treasurys_pays_nothing(desk):
    payout = await desk.asked()
    object.__setattr__(desk.lab.rail.chain, "treasury", MERCHANT)
    await desk.turn()
    assert MERCHANT in await waits(desk, payout)
    problems = await desk.store.read(payouts.problems())
    assert [(chain, count) for chain, _, count in problems] == [(CHAIN, 1)]
