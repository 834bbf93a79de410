"""Test payouts from request to end through failures of the chain, the node and the process.

No contract would refuse a second transfer, so each test ends by counting the transfers on the
chain.
"""

from __future__ import annotations

from typing import Any

import pytest
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.domain.chains.evm import abi
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting, TxState
from florin_server.money.ledger.store import ledger

from tests.support.evm_harness import (
    CHAIN,
    ETHER,
    EURO,
    MERCHANT,
    TOKEN,
    make_refusal,
    make_reply,
    to_account,
)
from tests.support.hostile_accounts import BURNS_FOR_A_PRICE
from tests.support.payout_actions import (
    COIN,
    MOODY,
    RECEIPT,
    SEND,
    change_logs,
    get_waiting_reason,
    send_transaction_first,
)
from tests.support.payout_harness import (
    BUYER,
    FLOAT,
    SHOP,
    TREASURY,
    TREASURY_KEY,
    open_payout_harness,
)

# stores 20 words for each sender of coin
GREEDY = "".join(f"600160{n:02x}55" for n in range(20))


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


def attempts(desk) -> dict[str, float]:
    """Return the number of ended payout transactions by outcome."""
    return {
        sample.labels["outcome"]: sample.value
        for family in desk.app.meters.registry.collect()
        for sample in family.samples
        if (sample.name, sample.labels.get("chain")) == ("florin_payout_attempts_total", CHAIN)
        and sample.value
    }


# the usual case


async def test_a_refund_ends_at_final_depth_and_not_before(desk, monkeypatch):
    spans: list[tuple[Any, ...]] = []
    monkeypatch.setattr(type(desk.app.traces), "record_root", lambda _, *span: spans.append(span))
    payout = await desk.create_payout(150)
    before = (await desk.refund(payout)).version
    await desk.turn(2)
    # mined at once; the chain's settings require three blocks
    assert await desk.lab.balance(BUYER) == 150
    for _ in range(2):
        result, refund = await desk.get_payout(payout), await desk.refund(payout)
        assert (result.status, refund.status) == (PayoutStatus.SUBMITTED, "processing")
        assert (refund.tx_id, refund.version) == (result.tx_id, before + 1)
        assert refund.completed_at_us is None
        await desk.mine()
    result, refund = await desk.get_payout(payout), await desk.refund(payout)
    assert (result.status, refund.status) == (PayoutStatus.DONE, "succeeded")
    assert refund.version == before + 2
    assert refund.completed_at_us == result.completed_at_us == desk.lab.clock.now_us()
    assert spans == [(payout.id, "payout", payout.created_at_us, result.completed_at_us)]
    assert attempts(desk) == {"done": 1}
    receipt = await desk.lab.control.call(RECEIPT, result.tx_id)
    assert receipt["from"].lower() == TREASURY.address
    assert await desk.transfers() == [150]
    read = desk.store.read
    treasury = f"wallet:{desk.lab.rail.treasury}"
    assert await read(ledger.get_balance(f"merchant:{SHOP}", TOKEN)) == 150
    assert await read(ledger.get_balance(treasury, TOKEN)) == -150
    gas = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    assert await read(ledger.get_balance("expense:gas", COIN)) == gas
    assert await read(ledger.get_balance(treasury, COIN)) == -gas
    await desk.check_books()


async def test_several_payouts_are_on_their_way_at_once(desk):
    requests = [await desk.create_payout(100 + n) for n in range(4)]
    await desk.turn()
    assert [tx.nonce for tx in await desk.transactions()] == [0, 1, 2, 3]
    for payout in requests:
        await desk.wait_done(payout)
    assert await desk.transfers() == [100, 101, 102, 103]


async def test_a_balance_goes_where_the_merchant_wants_it(desk):
    await desk.book_owed(500)
    payout = await desk.create_payout(
        500, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=to_account(MERCHANT)
    )
    await desk.wait_done(payout)
    assert await desk.lab.balance(MERCHANT) == 500
    assert await desk.store.read(ledger.get_balance(f"merchant:{SHOP}", TOKEN)) == 0


async def test_coin_is_paid_out_and_its_gas_booked(desk):
    before = await desk.lab.control.call("eth_getBalance", TREASURY.address, "latest")
    await desk.wait_done(await desk.create_payout(10**15, asset=COIN))
    assert await desk.lab.control.call("eth_getBalance", BUYER, "latest") == hex(10**15)
    left = int(await desk.lab.control.call("eth_getBalance", TREASURY.address, "latest"), 16)
    gas = await desk.store.read(ledger.get_balance("expense:gas", COIN))
    assert int(before, 16) - left == 10**15 + gas


# waiting for a block


async def test_a_payout_after_a_long_rest_offers_more_only_when_blocks_passed_since(desk):
    await desk.turn()
    # no transaction is pending, so Florin does not look at the chain
    await desk.lab.mine(20)
    await desk.lab.pause()
    payout = await desk.create_payout(150)
    await desk.turn(4)
    (waiting,) = await desk.transactions()
    assert (waiting.bumps, waiting.state) == ((), TxState.SENT)
    await desk.fault(kind="baseFee", wei=hex(40 * 10**9))
    await desk.mine(2)
    assert [tx.bumps for tx in await desk.transactions()] == [()]
    await desk.mine()
    (raised,) = await desk.transactions()
    assert len(raised.bumps) == 1
    assert (await desk.wait_done(payout)).tx_id == raised.bumps[0].hash
    assert await desk.transfers() == [150]


# exactly once


async def test_a_process_that_dies_before_the_broadcast_pays_once(desk):
    payout = await desk.create_payout()
    desk.lab.node.lost_methods = frozenset({SEND})
    await desk.turn()
    (signed,) = await desk.transactions()
    assert (signed.state, await desk.transfers()) == (TxState.SIGNED, [])
    desk.lab.node.lost_methods = frozenset()
    await desk.restart()
    assert (await desk.wait_done(payout)).tx_id == signed.hash
    assert await desk.worker.may_rebroadcast(signed)
    assert await desk.transfers() == [150]


async def test_a_process_that_dies_after_the_broadcast_pays_once(desk):
    payout = await desk.create_payout()
    await desk.turn()
    (sent,) = await desk.transactions()
    for _ in range(3):
        await desk.restart()
    assert (await desk.wait_done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


@pytest.mark.parametrize("effect", ["error", "late_error", "null", "drop"])
async def test_an_error_on_send_is_no_answer(desk, effect):
    await desk.fault(kind="answer", method=SEND, effect=effect, times=2)
    payout = await desk.create_payout()
    await desk.turn(2)
    (sent,) = await desk.transactions()
    assert (await desk.wait_done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


async def test_evicted_transaction_is_rebroadcast_without_a_new_block(desk):
    await desk.lab.pause()
    payout = await desk.create_payout()
    await desk.turn(2)
    (sent,) = await desk.transactions()
    await desk.fault(kind="evict", transactions=[sent.hash])
    desk.lab.clock.advance(11)
    await desk.turn()
    assert await desk.lab.rail.relay.has_transaction(sent.hash)
    assert (await desk.wait_done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


async def test_receipts_that_are_null_prove_nothing(desk):
    """Its nonce is used at final depth, by the transaction itself."""
    payout = await desk.create_payout()
    desk.lab.node.changes = {RECEIPT: make_reply(None)}
    await desk.turn()
    for _ in range(6):
        desk.lab.clock.advance(11)
        await desk.mine()
    assert (await desk.get_payout(payout)).status is PayoutStatus.SUBMITTED
    desk.lab.node.changes = {}
    await desk.wait_done(payout)
    assert await desk.transfers() == [150]


async def test_transaction_with_a_taken_nonce_is_replaced_after_operator_approval(desk, caplog):
    await desk.fault(kind="answer", method=SEND, effect="drop", times=1)
    payout = await desk.create_payout()
    await desk.turn()
    (lost,) = await desk.transactions()
    # another user of the same key
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    desk.lab.clock.advance(11)
    await desk.turn()
    assert (await desk.get_payout(payout)).tx_id == lost.hash
    await desk.lab.mine(2)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    # another user of the key could have paid it: the operator decides
    assert (await desk.get_payout(payout)).status is PayoutStatus.WAITING
    assert "has nonce 0" in desk.get_lag_reason()
    await desk.resume()
    done = await desk.wait_done(payout)
    assert done.tx_id != lost.hash
    (result,) = [
        record
        for record in caplog.records
        if lost.hash in record.message and payout.id in record.message
    ]
    what = f"its transaction {lost.hash} was replaced by another transaction"
    assert (result.levelname, result.message) == ("ERROR", f"payout {payout.id}: {what}")
    # not even if a deep reorganization freed the nonce again
    assert not await desk.worker.may_rebroadcast(lost)
    assert await desk.transfers() == [150]


async def test_nonce_taken_long_ago_is_detected(desk):
    await desk.fault(kind="answer", method=SEND, effect="drop", times=1)
    await desk.lab.mine(7)
    payout = await desk.create_payout()
    await desk.turn()
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=1)
    await desk.lab.mine(40)
    desk.lab.clock.advance(11)
    await desk.turn(2)
    await desk.resume()
    await desk.wait_done(payout)
    assert await desk.transfers() == [150]


async def test_a_reorganisation_below_final_depth_moves_the_proof(desk):
    payout = await desk.create_payout()
    await desk.turn(2)
    await desk.mine()
    (sent,) = await desk.transactions()
    await desk.lab.reorg(2, delay=1)
    await desk.turn()
    assert (await desk.get_payout(payout)).status is PayoutStatus.SUBMITTED
    assert (await desk.wait_done(payout)).tx_id == sent.hash
    assert await desk.transfers() == [150]


async def test_a_transfer_that_fails_on_chain_waits_again(desk):
    moody = await desk.lab.deploy(MOODY)
    payout = await desk.create_payout(1000, asset=COIN, account=to_account(moody))
    await desk.lab.pause()
    await desk.turn()
    (sent,) = await desk.transactions()
    # it refuses coin from the block of the transfer on
    from tests.support.settlement_actions import HIGH_FEE

    await send_transaction_first(desk, moody, HIGH_FEE)
    await desk.mine(4)
    assert (await desk.lab.control.call(RECEIPT, sent.hash))["status"] == "0x0"
    assert await get_waiting_reason(desk, payout) == f"its transaction {sent.hash} failed"
    assert attempts(desk) == {"again": 1}
    assert await desk.store.read(ledger.get_balance("expense:gas", COIN)) > 0
    desk.lab.clock.advance(61)
    await desk.turn()
    assert "would fail" in await get_waiting_reason(desk, payout)
    assert await desk.lab.control.call("eth_getBalance", moody, "latest") == "0x0"
    await desk.check_books()


async def test_a_receiver_that_wants_transfers_to_fail_gets_few_of_them(desk):
    """It accepts coin in a simulation, and burns gas in a transaction."""
    burns = await desk.lab.deploy(BURNS_FOR_A_PRICE)
    payout = await desk.create_payout(1000, asset=COIN, account=to_account(burns))
    sent = desk.lab.node.methods.count(SEND)

    async def waiting() -> bool:
        return (await desk.get_payout(payout)).status is PayoutStatus.WAITING

    for _ in range(48):
        await desk.turn(2)
        await desk.mine_until(waiting)
        desk.lab.clock.advance(1800)
    # after a minute, half an hour, an hour, two hours, four hours, and so on
    assert 3 <= desk.lab.node.methods.count(SEND) - sent <= 8
    await desk.check_books()


@pytest.mark.parametrize(
    "change",
    [
        lambda _: [],
        lambda receipt: receipt["logs"] * 2,
        lambda receipt: [{**receipt["logs"][0], "data": "0x" + f"{149:064x}"}],
        lambda receipt: [{**receipt["logs"][0], "address": MERCHANT}],
    ],
)
async def test_unproven_transfer_is_neither_completed_nor_repeated(desk, change):
    payout = await desk.create_payout()
    desk.lab.node.changes = {RECEIPT: change_logs(change)}
    await desk.turn()
    await desk.mine(4)
    result = await desk.get_payout(payout)
    assert result.status is PayoutStatus.SUBMITTED
    assert "not proven" in (result.problem or "")
    assert attempts(desk) == {"unproven": 1}
    assert await desk.transactions() == []
    desk.lab.node.changes = {}
    await desk.restart()
    desk.lab.clock.advance(3600)
    await desk.mine(4)
    assert (await desk.get_payout(payout)).status is PayoutStatus.SUBMITTED
    assert await desk.transfers() == [150]


# missing money


async def test_a_treasury_that_is_short_sends_nothing_until_it_is_filled(desk):
    payout = await desk.create_payout(FLOAT + 5)
    await desk.turn(3)
    assert "lacks 5 minor units" in await get_waiting_reason(desk, payout)
    assert desk.lab.node.methods.count(SEND) == 0
    await desk.lab.send_tokens(TREASURY.address, 5)
    await desk.turn()
    assert await get_waiting_reason(desk, payout)
    desk.lab.clock.advance(5)
    await desk.turn()
    await desk.wait_done(payout)
    assert await desk.transfers() == [FLOAT + 5]


async def test_submitted_payout_reserves_its_balance(desk):
    await desk.lab.pause()
    first, second = await desk.create_payout(FLOAT - 100), await desk.create_payout(101)
    await desk.turn()
    assert (await desk.get_payout(first)).status is PayoutStatus.SUBMITTED
    assert "lacks 1 minor units" in await get_waiting_reason(desk, second)


async def test_a_treasury_without_coin_for_gas_sends_nothing(desk):
    left = int(await desk.lab.control.call("eth_getBalance", TREASURY.address, "latest"), 16)
    price = 10**11
    fee = {"gas": 21_000, "maxFeePerGas": price, "maxPriorityFeePerGas": price}
    await desk.lab.send(key=TREASURY_KEY, to=MERCHANT, value=left - 21_000 * price, **fee)
    for asset, what in ((TOKEN, "wei for gas"), (COIN, "wei")):
        payout = await desk.create_payout(ETHER if asset == COIN else 1, asset=asset)
        await desk.turn()
        assert what in await get_waiting_reason(desk, payout)
    assert desk.lab.node.methods.count(SEND) == 0


async def test_a_receiver_cannot_make_the_treasury_burn_gas(desk):
    greedy = await desk.lab.deploy(GREEDY)
    payout = await desk.create_payout(1, asset=COIN, account=to_account(greedy))
    await desk.turn()
    assert "more than the limit of 300000" in await get_waiting_reason(desk, payout)


async def test_a_token_that_is_no_contract_of_ours_reverts_and_waits(desk):
    payout = await desk.create_payout(1, asset=EURO)
    await desk.turn()
    # the treasury has no balance in it
    assert "lacks 1 minor units" in await get_waiting_reason(desk, payout)


# allowed receivers


async def test_token_refusal_of_a_receiver_is_the_waiting_reason(desk):
    frozen = abi.encode_selector("blacklist(address)") + abi.encode_address(BUYER)
    await desk.lab.send(to=DEVNET.token.address, data=frozen)
    payout = await desk.create_payout(150)
    await desk.turn(2)
    waiting_reason = await get_waiting_reason(desk, payout)
    assert waiting_reason == "the transfer would fail: TestDollar: account is frozen"
    assert desk.lab.node.methods.count(SEND) == 0


async def test_a_blocked_account_is_not_sent_anything_until_it_is_free(desk):
    payout = await desk.create_payout()
    desk.app.blocklist.add([BUYER])
    await desk.turn(2)
    assert await get_waiting_reason(desk, payout) == "its destination is blocked"
    # the settings of the next process do not contain it
    await desk.restart()
    desk.lab.clock.advance(5)
    await desk.wait_done(payout)
    assert await desk.transfers() == [150]


async def test_a_live_refund_waits_until_the_merchant_is_owed_as_much(desk):
    payout = await desk.create_payout(150, live=True)
    other = await desk.create_payout(10, live=True, merchant_id="mrch_other")
    await desk.book_owed(149)
    await desk.book_owed(9, merchant="mrch_other")
    await desk.turn(2)
    for item in (payout, other):
        assert "lack 1 minor units" in await get_waiting_reason(desk, item)
    await desk.book_owed(1)
    desk.lab.clock.advance(5)
    await desk.wait_done(payout)
    assert await get_waiting_reason(desk, other)
    assert await desk.transfers() == [150]
    assert await desk.store.read(ledger.get_balance(f"merchant:{SHOP}", TOKEN)) == 0


async def test_two_live_refunds_do_not_share_the_same_balance(desk):
    await desk.book_owed(150)
    first, second = (
        await desk.create_payout(100, live=True),
        await desk.create_payout(100, live=True),
    )
    await desk.turn()
    assert (await desk.get_payout(first)).status is PayoutStatus.SUBMITTED
    assert "lack 50 minor units" in await get_waiting_reason(desk, second)
    await desk.wait_done(first)
    desk.lab.clock.advance(61)
    await desk.turn(2)
    assert "lack 50 minor units" in await get_waiting_reason(desk, second)


async def test_a_balance_that_shrinks_while_it_is_signed_for_is_not_overdrawn(desk, monkeypatch):
    await desk.book_owed(150)
    treasury = desk.lab.rail.payouts
    sign = treasury.sign

    async def slow(nonce, transfer):
        gone = LedgerPosting(f"merchant:{SHOP}", f"wallet:{desk.lab.rail.treasury}", TOKEN, 1)
        await desk.store.write(ledger.post("payout:1", "payout", None, None, (gone,), 0))
        return await sign(nonce, transfer)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(treasury, "sign", slow)
        payout = await desk.create_payout(150, live=True)
        await desk.turn()
    assert "lack 1 minor units" in await get_waiting_reason(desk, payout)
    await desk.mine(3)
    assert await desk.transfers() == []


# outages


async def test_payouts_wait_while_the_node_is_away(desk):
    payout = await desk.create_payout()
    node = desk.lab.node
    everything = ("eth_getBalance", "eth_call", "eth_estimateGas", "eth_getBlockByNumber")
    node.changes = dict.fromkeys(everything, make_refusal(-32603, "overloaded"))
    await desk.turn()
    assert desk.worker.health().problem
    assert await get_waiting_reason(desk, payout)
    node.changes = {}
    node.lost_methods = frozenset({*everything, "eth_blockNumber"})
    desk.lab.clock.advance(10)
    await desk.turn()
    assert await get_waiting_reason(desk, payout)
    node.lost_methods = frozenset()
    desk.lab.clock.advance(10)
    await desk.wait_done(payout)
    assert desk.worker.health().problem == ""
    assert await desk.transfers() == [150]
