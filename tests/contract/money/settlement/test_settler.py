"""Test payments from acceptance to their end, through failures of chain, node and process.

Each test ends by asking the chain itself. The money moved once for a payment that succeeded, and
never for one that failed. The books must agree.
"""

from __future__ import annotations

import asyncio

import pytest
from eth_account import Account
from florin_sandbox.devnet.evm import DEVNET
from florin_server.app.app import build_app
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import settlement_items, used_nonces
from florin_server.rails.evm.paying.terms import EvmOptionTerms, to_address
from florin_server.rails.types import SettlementEvent

from tests.support import postgres
from tests.support.evm_harness import (
    PRICE,
    RELAYER,
    TOKEN,
    make_buyer,
    to_account,
)
from tests.support.settlement_actions import HIGH_FEE, build_settlement_call, front_run
from tests.support.settlement_harness import (
    CHAIN,
    MERCHANT,
    SettlementHarness,
    open_settlement_harness,
    remove_destination,
)

WALLET = make_buyer(77)
GRACE_S = 300

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def shop(tmp_path, evm):
    async with open_settlement_harness(tmp_path, evm=evm) as running:
        yield running


async def send_waiting(shop: SettlementHarness, data: bytes) -> str:
    """Send a call while no blocks are sealed, with a fee that puts it first; return its hash."""
    nonce = await shop.lab.control.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    raw = Account.sign_transaction(
        {
            **HIGH_FEE,
            "nonce": int(nonce, 16),
            "to": bytes.fromhex(DEVNET.settler[2:]),
            "data": data,
        },
        DEVNET.faucet_key,
    ).raw_transaction
    return await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())


# the usual case


async def test_a_payment_ends_at_final_depth_and_not_before(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    # mined at once; the chain's settings require three blocks
    assert await shop.lab.balance(MERCHANT) == PRICE
    assert await shop.status(payment) == "processing"
    await shop.mine()
    assert await shop.status(payment) == "processing"
    await shop.mine()
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.version) == ("succeeded", 2)
    assert (ended.option_value, ended.settled_value) == (PRICE, PRICE)
    assert await shop.transactions() == []
    await shop.check(ended)
    buyer_account = f"external:{to_account(WALLET)}"
    assert await shop.store.read(ledger.get_balance(buyer_account, TOKEN)) == -PRICE
    gas = await shop.store.read(ledger.get_balance("expense:gas", f"{CHAIN}/slip44:60"))
    assert gas > 0


@pytest.mark.parametrize("own", [True, False], ids=["own", "treasury"])
async def test_settled_value_is_reported_for_direct_payment_to_the_merchant(
    tmp_path, monkeypatch, own
):
    monkeypatch.setenv("FLORIN_FEE_FIXED", "7")
    monkeypatch.setenv("FLORIN_FEE_BASIS_POINTS", "100")
    async with open_settlement_harness(tmp_path) as shop:
        if not own:
            await shop.store.write(remove_destination())
        ended = await shop.run_to_end(await shop.create_processing_payment(WALLET))
        assert (ended.option_unit, ended.option_value) == (f"caip19/{TOKEN}", PRICE)
        assert ended.settled_value == (PRICE - 7 - PRICE // 100 if own else None)


@pytest.mark.parametrize(("age_s", "wait_s"), [(2, 1), (4, 1), (8.000003, 2), (60, 5)])
async def test_payment_that_would_not_settle_is_retried_after_a_quarter_of_its_age(
    shop, age_s, wait_s
):
    """The usual cause is an approval that is not mined yet; here the money itself is late."""
    # a buyer without other pending payments is not checked a second time
    first, second = [await shop.create_processing_payment(WALLET) for _ in range(2)]
    confirmed_us = shop.lab.clock.now_us()
    held = await shop.lab.balance(WALLET.address)
    words = bytes.fromhex("5a" * 20).rjust(32, b"\0") + held.to_bytes(32, "big")
    token, data = DEVNET.token.address, bytes.fromhex("a9059cbb") + words
    await shop.lab.send(key=bytes(WALLET.key), to=token, data=data)
    shop.lab.clock.advance(age_s - (shop.lab.clock.now_us() - confirmed_us) / 1_000_000)
    await shop.turn()
    tried_us = shop.lab.clock.now_us()
    assert await shop.transactions() == []
    for more_us, results in ((-1, set()), (0, {first.id, second.id})):
        at_us = tried_us + wait_s * 1_000_000 + more_us
        due = await shop.store.read(settlement_items.list_waiting(CHAIN, 9, at_us))
        assert {item.payment.id for item in due} == results
    await shop.lab.send_tokens(WALLET.address, held)
    shop.lab.clock.advance(wait_s)
    for payment in (first, second):
        assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_payments_accepted_together_share_a_transaction(shop):
    wallets = [make_buyer(100 + n) for n in range(5)]
    accepted = [await shop.create_processing_payment(wallet) for wallet in wallets]
    await shop.turn()
    ended = [await shop.run_to_end(payment) for payment in accepted]
    assert {payment.status for payment in ended} == {"succeeded"}
    assert len({payment.tx_id for payment in ended}) == 1


async def test_time_alone_ends_nothing(shop):
    """The service's clock passes every deadline; the chain's does not."""
    await shop.lab.pause()
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    shop.lab.clock.advance(900 + GRACE_S + 86_400)
    await shop.turn(5)
    assert await shop.status(payment) == "processing"


# broadcasts


async def test_a_dropped_broadcast_is_repeated(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    assert not await shop.lab.rail.relay.has_transaction(sent.hash)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_it_is_repeated_too_where_no_block_comes_without_it(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    shop.lab.clock.advance(9)
    await shop.turn()
    assert await shop.lab.balance(MERCHANT) == 0
    shop.lab.clock.advance(1)
    await shop.turn()
    assert await shop.lab.balance(MERCHANT) == PRICE
    assert (await shop.run_to_end(payment)).tx_id == sent.hash


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
async def test_a_dropped_broadcast_is_repeated_however_blocks_are_seen(shop, step):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=2)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    for _ in range(12):
        await shop.lab.mine(step)
        await shop.turn()
    assert shop.lab.node.methods.count("eth_sendRawTransaction") == 3
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_pending_transaction_is_not_sent_twice(shop):
    await shop.lab.pause()
    await shop.create_processing_payment(WALLET)
    await shop.turn(8)
    assert shop.lab.node.methods.count("eth_sendRawTransaction") == 1


@pytest.mark.parametrize("effect", ["error", "late_error", "null"])
async def test_an_error_on_send_is_no_answer(shop, effect):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect=effect, times=2)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    assert await shop.status(payment) == "processing"
    (sent,) = await shop.transactions()
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_receipts_that_are_null_prove_nothing(shop):
    payment = await shop.create_processing_payment(WALLET)
    for method in ("eth_getBlockReceipts", "eth_getTransactionReceipt"):
        await shop.fault(kind="answer", method=method, effect="null", times=4)
    await shop.fault(kind="answer", method="eth_getLogs", effect="null", times=4)
    await shop.turn(2)
    await shop.mine(2)
    assert await shop.status(payment) == "processing"
    assert (await shop.run_to_end(payment)).status == "succeeded"


# reorganizations


async def test_a_reorganisation_below_final_depth_moves_the_proof(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    await shop.mine()
    (sent,) = await shop.transactions()
    # the same transaction, one block later
    await shop.lab.reorg(2, delay=1)
    await shop.turn()
    assert await shop.status(payment) == "processing"
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_a_reorganisation_that_loses_the_transaction(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(2)
    (sent,) = await shop.transactions()
    await shop.lab.reorg(1, sent.hash)
    assert await shop.lab.balance(MERCHANT) == 0
    await shop.turn()
    assert await shop.status(payment) == "processing"
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_a_settlement_that_moves_below_the_block_of_its_confirm(shop):
    """A process that starts later finds it from the stored first block alone."""
    await shop.mine(4)
    await shop.lab.pause()
    payment = await shop.create_processing_payment(WALLET)
    theirs = await send_waiting(shop, await build_settlement_call(shop, payment))
    confirmed_at = await shop.lab.rail.observer.get_head()
    await shop.fault(kind="reorg", depth=2)
    receipt = await shop.lab.control.call("eth_getTransactionReceipt", theirs)
    assert int(receipt["blockNumber"], 16) < confirmed_at.number
    await shop.lab.mine(3)
    await shop.restart()
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    await shop.check(ended)


# restarts


async def test_a_restart_between_writing_down_and_sending(shop):
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (signed,) = await shop.transactions()
    assert signed.state == TxState.SIGNED
    shop.lab.node.lost_methods = frozenset()
    await shop.restart()
    (sent,) = await shop.transactions()
    assert sent.raw == signed.raw
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", signed.hash)


async def test_a_restart_before_anything_was_written_down(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.restart()
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_payment_final_during_downtime_succeeds_after_restart(shop):
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    await shop.lab.mine(10)
    await shop.restart()
    ended = await shop.get_payment(payment)
    assert ended.status == "succeeded"
    await shop.check(ended)
    assert await shop.transactions() == []


async def test_a_restart_at_every_block(shop):
    payment = await shop.create_processing_payment(WALLET)
    for _ in range(6):
        await shop.restart()
        await shop.lab.mine()
    ended = await shop.run_to_end(payment)
    assert ended.status == "succeeded"
    assert await shop.store.read(used_nonces.find_next_nonce(CHAIN, RELAYER.address)) == 1


async def test_the_former_owner_of_a_lease_sends_nothing(shop):
    """Two settlers of one chain would use one nonce twice."""
    first = shop.settler
    second = type(first)(shop.app, shop.lab.rail, "second")
    shop.app = build_app(shop.app, [second])
    await shop.turn()
    await postgres.let_leases_lapse(shop.folder)
    task = asyncio.create_task(second.run())
    await second.turn_done.wait()
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn(3)
    assert await shop.transactions() == []
    assert first.health().problem
    task.cancel()
    await asyncio.wait({task})
    await shop.restart()
    assert (await shop.run_to_end(payment)).status == "succeeded"


# transactions of others


async def test_authorization_submitted_first_by_a_stranger_succeeds(shop):
    payment = await shop.create_processing_payment(WALLET)
    theirs = await front_run(shop, payment)
    await shop.turn(2)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_authorization_submitted_by_a_stranger_beats_the_pending_transaction(shop):
    await shop.lab.pause()
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (ours,) = await shop.transactions()
    theirs = await send_waiting(shop, await build_settlement_call(shop, payment))
    await shop.mine()
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    assert ended.tx_id != ours.hash
    # our own gas is still booked
    assert await shop.transactions() == []


async def test_another_transaction_takes_our_nonce(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (lost,) = await shop.transactions()
    rival = Account.sign_transaction(
        {**HIGH_FEE, "nonce": lost.nonce, "to": bytes(19) + b"\x99"}, b"\x52" * 32
    ).raw_transaction
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(rival).hex())
    await shop.mine(3)
    shop.lab.clock.advance(10)
    await shop.turn()
    shop.lab.clock.advance(10)
    await shop.turn()
    ended = await shop.run_to_end(payment)
    assert ended.status == "succeeded"
    assert ended.tx_id != lost.hash


# missing money


async def two_on_one_balance(shop: SettlementHarness):
    """Accept two payments of a buyer who has enough money for one."""
    await shop.lab.fund(WALLET)
    held = await shop.lab.balance(WALLET.address)
    # in cents; a token unit is a ten-thousandth of a cent
    cents = held // 10_000 - 50
    first = await shop.create_processing_payment(WALLET, cents)
    shop.lab.clock.advance(1)
    return first, await shop.create_processing_payment(WALLET, cents)


async def test_second_of_two_payments_on_a_balance_waits_for_funds(shop):
    first, second = await two_on_one_balance(shop)
    await shop.turn()
    ended = await shop.run_to_end(first)
    assert ended.status == "succeeded"
    assert await shop.status(second) == "processing"
    # the buyer gets money, and the second payment succeeds
    await shop.lab.send_tokens(WALLET.address, 10**12)
    shop.lab.clock.advance(6)
    await shop.turn(2)
    assert (await shop.run_to_end(second)).status == "succeeded"


async def test_an_overspent_payment_fails_once_its_authorization_lapsed(shop):
    first, second = await two_on_one_balance(shop)
    await shop.turn()
    assert (await shop.run_to_end(first)).status == "succeeded"
    shop.lab.clock.advance(900 + GRACE_S)
    await shop.turn(3)
    # no block has reached that time
    assert await shop.status(second) == "processing"
    await shop.mine()
    shop.lab.clock.advance(11)
    await shop.turn()
    assert await shop.status(second) == "processing"
    await shop.mine(2)
    shop.lab.clock.advance(11)
    await shop.turn()
    ended = await shop.get_payment(second)
    assert (ended.status, ended.failure_code) == ("failed", None)
    assert "lapsed" in (ended.failure_detail or "")
    await shop.check(ended)


async def test_an_event_of_a_block_that_was_replaced_unread_is_no_event(shop, monkeypatch):
    first, second = await two_on_one_balance(shop)
    await shop.turn()
    assert (await shop.run_to_end(first)).status == "succeeded"
    item = await shop.get_item(second)
    terms, split = (
        EvmOptionTerms.from_option(item.option),
        shop.lab.rail.terms.get_split(item.option),
    )
    event = SettlementEvent(
        ref=shop.lab.rail.terms.get_reference(item.option),
        tx_hash="0x" + "ab" * 32,
        block_number=(await shop.lab.rail.observer.get_head()).number + 1,
        block_hash="0x" + "cd" * 32,
        payer=to_address(item.option.payer),
        dest=to_address(split.dest),
        fee_to=terms.route.fee_to,
        token=terms.route.token,
        value=item.option.value,
        fee=split.fee,
        nonce="0x" + terms.nonce.hex(),
    )
    assert shop.lab.rail.terms.is_proven(item.option, event)
    # the answer of a node that follows another block for a moment
    find, answers = shop.lab.rail.observer.find_settlement_events, [[event]]

    async def astray(items):
        return answers.pop() if answers else await find(items)

    monkeypatch.setattr(shop.lab.rail.observer, "find_settlement_events", astray)
    shop.lab.clock.advance(900 + GRACE_S)
    for _ in range(2):
        await shop.mine(3)
        shop.lab.clock.advance(11)
        await shop.turn()
    assert answers == []
    ended = await shop.get_payment(second)
    assert ended.status == "failed"
    assert "lapsed" in (ended.failure_detail or "")
    await shop.check(ended)


async def test_an_authorization_that_was_used_before_it_lapsed_is_no_failure(shop):
    """A success stays a success, even if its proof is found after the deadline."""
    payment = await shop.create_processing_payment(WALLET)
    theirs = await front_run(shop, payment)
    shop.lab.clock.advance(900 + GRACE_S + 60)
    await shop.lab.mine(5)
    await shop.turn(2)
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    await shop.check(ended)
