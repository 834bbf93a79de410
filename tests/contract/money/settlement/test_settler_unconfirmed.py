"""Test that money which arrives before, or without, its confirm is never lost.

Wallets send what an option's build contained, never fetch and never confirm. Florin is down
meanwhile. Others flood the settlement contract with unrelated events.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.db import installation
from florin_server.db.engine.query import operation
from florin_server.domain.chains.evm import abi
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.service.confirm import confirm
from florin_server.money.payments.service.fetch import fetch
from florin_server.money.payments.store import payments
from florin_server.money.settlement.worker import direct_payments
from florin_server.money.settlement.worker.blocks import create_follower
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import APPROVE, EvmOptionTerms, to_address
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.types import SettlementEvent

from tests.support import postgres
from tests.support.evm_harness import CHAIN, PRICE, TOKEN, make_buyer, make_reply, sign_option
from tests.support.settlement_actions import (
    ETHER,
    TTL_S,
    WALLET,
    look_until_current,
    make_coin_offer,
    make_offer,
    send_payment,
)
from tests.support.settlement_harness import BUYER, SettlementHarness, open_settlement_harness

MUTE = "00"  # code that accepts every call and returns nothing
GRACE_S = 300


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(
        tmp_path, coin=EvmCoinSettings(name="Test Ether", symbol="tETH")
    ) as running:
        yield running


async def token(shop: SettlementHarness):
    """Offer a token payment to an account whose code cannot sign, with an approval."""
    await shop.lab.fund(WALLET)
    await shop.lab.delegate(WALLET, MUTE)
    data = APPROVE + abi.encode_address(DEVNET.settler) + abi.encode_uint256(PRICE)
    await shop.lab.send(key=bytes(WALLET.key), to=DEVNET.token.address, data=data)
    return await make_offer(shop, f"caip19/{TOKEN}")


async def dollar(shop: SettlementHarness):
    """Offer a payment that the buyer signs."""
    return await make_offer(shop, "iso4217/USD")


WAYS = pytest.mark.parametrize("way", [make_coin_offer, token])


async def settled(shop: SettlementHarness, option, output: str) -> str:
    """Settle, from another account, what the buyer signed; return the transaction."""
    signature = bytes.fromhex(json.loads(output)[2:])
    pay = EvmOptionTerms.from_option(option).build_pay_arguments(
        to_address(option.payer), signature, shop.lab.key_gas
    )
    receipt = await shop.lab.send(to=DEVNET.settler, data=contract.encode_settle([pay]))
    return str(receipt["transactionHash"])


async def fetched(shop: SettlementHarness, payment, option, tx_hash: str):
    """Return to the page as a wallet: fetch the option, then confirm the sent transaction."""
    assert option.build is not None
    await fetch(shop.app, BUYER, payment.id, option.id, option.build.data)
    output = json.dumps(tx_hash)
    return await confirm(shop.app, BUYER, payment.id, option.id, [[output]])


async def followed_to_the_end(shop: SettlementHarness) -> None:
    """Record that all blocks were read, as if their events had been missed."""
    head = int(await shop.lab.control.call("eth_blockNumber"), 16)
    now = shop.lab.clock.now_us() // 1_000_000
    await shop.store.write(installation.record_followed_block(CHAIN, head, now))


async def returns(shop: SettlementHarness, payment) -> list[int]:
    """Return the amounts to be returned for a payment."""
    result = await shop.store.read(_payouts())
    return [value for payment_id, value in result if payment_id == payment.id]


@operation
def _payouts():
    from florin_server.db.engine.query import Statement
    from florin_server.db.tables.tables import payout_table
    from sqlalchemy import select

    return (
        yield from Statement(select(payout_table.c.payment_id, payout_table.c.value), tuple).all()
    )


async def succeeded(shop: SettlementHarness, payment, tx_hash: str) -> None:
    ended = await shop.get_payment(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    await shop.check(ended)
    assert shop.settler.health().problem == ""
    assert await returns(shop, payment) == []


# no fetch and no confirm


@WAYS
async def test_transaction_sent_without_fetch_pays(shop, way):
    payment, option = await way(shop)
    tx_hash = await send_payment(shop, option)
    await shop.turn()
    # bound at once, so that the buyer is not asked to pay again
    assert await shop.status(payment) == "processing"
    await shop.mine(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_transaction_sent_without_fetch_during_downtime_pays(shop, way):
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await send_payment(shop, option)
    await shop.lab.mine(40)
    await shop.restart()
    await shop.turn(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_payment_sent_before_fetch_is_bound_after_a_restart(shop, way):
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await send_payment(shop, option)
    await shop.lab.mine(40)
    await shop.restart()
    # it was already bound: the wallet's confirm returns its state
    output = json.dumps(tx_hash)
    known_payment = await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    assert known_payment.option_id == option.id
    await shop.turn(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_event_missing_from_a_node_is_detected_when_its_block_is_reread(shop, way):
    payment, option = await way(shop)
    shop.lab.node.changes["eth_getBlockReceipts"] = make_reply([])
    shop.lab.node.changes["eth_getLogs"] = make_reply([])
    tx_hash = await send_payment(shop, option)
    await shop.turn()
    await shop.mine(3)
    assert await shop.status(payment) == "requires_action"
    del shop.lab.node.changes["eth_getLogs"]
    shop.lab.clock.advance(10)
    await shop.turn(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_a_true_hash_is_looked_for_since_the_option_was_offered(shop, way):
    """The block was read, its event was missed, and the wallet fetches long after it paid."""
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await send_payment(shop, option)
    await shop.lab.mine(40)
    shop.store = await open_store(postgres.get_store_location(shop.folder))
    await followed_to_the_end(shop)
    await shop.store.close()
    await shop.restart()
    assert await shop.status(payment) == "requires_action"
    assert (await fetched(shop, payment, option, tx_hash)).status == "processing"
    await shop.turn(3)
    await succeeded(shop, payment, tx_hash)


async def test_settlement_by_a_stranger_before_the_confirm_is_detected(shop, monkeypatch):
    """A lagging node verified the confirm: it did not know the block with the event."""
    payment, option = await dollar(shop)
    output = sign_option(WALLET, option)
    await shop.stop()
    tx_hash = await settled(shop, option, output)
    await shop.lab.mine(40)
    shop.store = await open_store(postgres.get_store_location(shop.folder))
    await followed_to_the_end(shop)
    await shop.store.close()
    await shop.restart()
    monkeypatch.setattr(shop.lab.rail.verifier, "verify", lambda *_: asyncio.sleep(0))
    await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)


# late payments


@WAYS
async def test_money_received_during_downtime_for_an_expired_payment_is_returned(shop, way, caplog):
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await send_payment(shop, option)
    shop.lab.clock.advance(TTL_S)
    await shop.lab.mine(5)
    with caplog.at_level(logging.ERROR):
        await shop.restart()
        await shop.turn(2)
    assert (await shop.get_payment(payment)).with_expiry(
        shop.lab.clock.now_us()
    ).status is PaymentStatus.EXPIRED
    assert await returns(shop, payment) == [PRICE]
    assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text
    assert await shop.store.read(ledger.check()) == []


async def test_money_final_only_after_the_payment_expired_is_returned(shop, caplog):
    payment, option = await dollar(shop)
    tx_hash = await settled(shop, option, sign_option(WALLET, option))
    await shop.turn()
    assert await shop.status(payment) == "requires_action"
    shop.lab.clock.advance(TTL_S)
    with caplog.at_level(logging.ERROR):
        await shop.mine(3)
    assert await returns(shop, payment) == [PRICE]
    assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text


async def test_the_clock_may_run_out_while_money_is_bound(shop, monkeypatch, caplog):
    """The payment expires after its event was looked up and before it is bound."""
    payment, option = await make_coin_offer(shop)
    accept = payments.accept

    def slow(*args, **how):
        shop.lab.clock.advance(TTL_S)
        late = (*args[:-1], shop.lab.clock.now_us())
        return accept(*late, **how)

    tx_hash = await send_payment(shop, option)
    monkeypatch.setattr(direct_payments.payments, "accept", slow)
    with caplog.at_level(logging.ERROR):
        await shop.mine(3)
    assert await returns(shop, payment) == [PRICE]
    assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text


# disagreement between nodes


async def doubted(shop: SettlementHarness, monkeypatch, times: int) -> list[int]:
    """Make nodes disagree `times` times; return the counter of what is left."""
    rail, left = shop.lab.rail, [times]

    async def agreed(facts):
        left[0] -= 1
        return dict.fromkeys(facts, left[0] < 0)

    monkeypatch.setattr(type(rail.observer), "agreement", 2)
    monkeypatch.setattr(rail.observer, "confirm_facts", agreed)
    return left


async def test_late_money_that_nodes_differ_about_goes_back_once_they_agree(shop, monkeypatch):
    """A node that loses a receipt for a while must not keep the buyer's money."""
    payment, option = await make_coin_offer(shop)
    pay = replace(
        EvmOptionTerms.from_option(option).build_pay_arguments(to_address(option.payer), b""),
        valid_before=2**64,
    )
    await shop.lab.send(
        key=bytes(WALLET.key), to=DEVNET.settler, value=pay.value, data=contract.encode_pay(pay)
    )
    left = await doubted(shop, monkeypatch, 2)
    await shop.mine(3)
    assert await returns(shop, payment) == []
    for _ in range(3):
        shop.lab.clock.advance(11)
        await shop.mine(2)
    assert left[0] < 0
    assert await returns(shop, payment) == [PRICE]
    assert await shop.store.read(ledger.check()) == []


async def test_settlement_by_a_stranger_under_node_disagreement_is_detected_later(
    shop, monkeypatch
):
    payment, option = await dollar(shop)
    tx_hash = await settled(shop, option, sign_option(WALLET, option))
    left = await doubted(shop, monkeypatch, 2)
    await shop.mine(3)
    assert await shop.status(payment) == "requires_action"
    for _ in range(3):
        shop.lab.clock.advance(11)
        await shop.mine(2)
    assert left[0] < 0
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)


# the contract reports it as paid


async def test_payment_that_the_contract_reports_paid_never_fails(shop, caplog):
    payment, option = await make_coin_offer(shop)
    tx_hash = await send_payment(shop, option)

    def without_logs(_, answer):
        results = [{**item, "logs": []} for item in answer["result"] or ()]
        return {"id": answer["id"], "result": results}

    shop.lab.node.changes = {"eth_getBlockReceipts": without_logs, "eth_getLogs": make_reply([])}
    assert (await fetched(shop, payment, option, tx_hash)).status == "processing"
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            shop.lab.clock.advance(TTL_S + GRACE_S)
            await shop.mine(3)
    assert await shop.status(payment) == "processing"
    assert f"payments paid whose events are missing: {payment.id}" in shop.settler.health().problem
    assert sum(payment.id in record.message for record in caplog.records) == 1
    shop.lab.node.changes = {}
    shop.lab.clock.advance(11)
    await shop.turn(3)
    await succeeded(shop, payment, tx_hash)


async def test_fetched_payment_that_was_never_sent_fails(shop):
    payment, option = await make_coin_offer(shop)
    assert (await fetched(shop, payment, option, "0x" + "77" * 32)).status == "processing"
    shop.lab.clock.advance(TTL_S + GRACE_S)
    await shop.mine(3)
    shop.lab.clock.advance(11)
    ended = await shop.run_to_end(payment)
    assert (ended.status, "lapsed" in (ended.failure_detail or "")) == ("failed", True)


# events that belong to no payment


@pytest.mark.parametrize("change", ["value", "fee", "dest", "token", "payer"])
async def test_an_event_with_our_reference_and_anything_else_changes_nothing(shop, change, caplog):
    payment, option = await make_coin_offer(shop)
    pay = EvmOptionTerms.from_option(option).build_pay_arguments(to_address(option.payer), b"")
    other = make_buyer(79)
    await shop.lab.send(to=other.address, value=10**18)
    await shop.lab.fund(other)
    data = APPROVE + abi.encode_address(DEVNET.settler) + abi.encode_uint256(PRICE)
    await shop.lab.send(key=bytes(other.key), to=DEVNET.token.address, data=data)
    mine = replace(pay, payer=other.address.lower())
    foreign = {
        "value": replace(mine, value=pay.value - 1),
        "fee": replace(mine, fee=1, fee_to=other.address.lower()),
        "dest": replace(mine, dest=other.address.lower()),
        "token": replace(mine, token=DEVNET.token.address),
        "payer": mine,
    }[change]
    value = 0 if change == "token" else foreign.value
    call = contract.encode_pay(foreign)
    receipt = await shop.lab.send(key=bytes(other.key), to=DEVNET.settler, value=value, data=call)
    assert [log["topics"][0] for log in receipt["logs"]].count(contract.PAID_TOPIC) == 1
    with caplog.at_level(logging.WARNING):
        await shop.mine(4)
    assert await shop.status(payment) == "requires_action"
    assert shop.settler.health().remembered_events == 0
    assert payment.id not in caplog.text
    # the buyer still pays
    tx_hash = await send_payment(shop, option)
    await shop.mine(3)
    await succeeded(shop, payment, tx_hash)


async def test_the_same_call_on_another_chain_pays_for_nothing(shop):
    """The contract has one address on all chains, and a test network's coin costs nothing."""
    payment, option = await make_coin_offer(shop)
    there = replace(
        option, id="opt_there", chain_id="eip155:1", asset=ETHER.replace(CHAIN, "eip155:1")
    )
    await shop.store.write(_moved(option, there))
    issued = await shop.lab.rail.offers.resolve_build(there, (), shop.lab.clock.now_us())
    await shop.store.write(payments.put_resolved_build(issued))
    await send_payment(shop, option)
    shop.lab.clock.advance(TTL_S)
    await shop.mine(4)
    assert await returns(shop, payment) == []
    assert await shop.store.read(payments.find_confirmation(payment.id)) is None


@operation
def _moved(option, there):
    from florin_server.db.engine.query import Command, param
    from florin_server.db.tables.tables import payment_option_table
    from sqlalchemy import delete

    yield Command(delete(payment_option_table).where(payment_option_table.c.id == param("id_")))(
        id_=option.id
    )
    yield from payments.put_options([there])


BLOCKS, A_BLOCK = 400, 50


async def test_twenty_thousand_foreign_events_are_dropped(shop, monkeypatch):
    """Each event is looked up once, by index, in its own block."""
    payment, option = await dollar(shop)
    rail, numbers, looked_up = shop.lab.rail, iter(range(10**6)), []
    block, by_reference = rail.blocks.find_block, direct_payments.offered_options.list_by_reference
    glance = rail.blocks.poll_head

    async def flooded(number):
        view = await block(number)
        if view is None:
            return None
        events = tuple(
            SettlementEvent(
                ref=f"0x{next(numbers):064x}",
                tx_hash="0x" + "ab" * 32,
                block_number=view.number,
                block_hash=view.hash,
                payer="0x" + "cd" * 20,
                dest="0x" + "ef" * 20,
                fee_to="",
                token=DEVNET.token.address,
                value=1,
                fee=0,
                nonce="0x" + "cd" * 32,
            )
            for _ in range(A_BLOCK)
        )
        return replace(view, events=(*view.events, *events))

    def counted(chain_id, references):
        looked_up.append(len(references))
        return by_reference(chain_id, references)

    async def busy(since):
        return replace(await glance(since), is_quiet=False)

    monkeypatch.setattr(rail.blocks, "find_block", flooded)
    monkeypatch.setattr(rail.blocks, "poll_head", busy)
    monkeypatch.setattr(direct_payments.offered_options, "list_by_reference", counted)
    await shop.turn()
    looked_up.clear()
    for _ in range(BLOCKS // 50):
        await shop.lab.mine(50)
        await shop.turn()
        assert shop.settler.health().remembered_events == 0
    assert sum(looked_up) == BLOCKS * A_BLOCK
    assert max(looked_up) <= 500
    # our own event is recognized among them, and kept until it is final
    tx_hash = await settled(shop, option, sign_option(WALLET, option))
    await shop.mine(3)
    assert (await shop.get_payment(payment)).tx_id == tx_hash


async def test_evidence_of_deep_blocks_is_dropped_except_for_awaited_references(shop):
    blocks = create_follower(shop.lab.rail)
    await blocks.start()
    await shop.lab.mine(70)
    await look_until_current(blocks)
    for ref, number in (("0x0a", 1), ("0x0b", 1), ("0x0c", blocks.head)):
        event = SettlementEvent(
            ref, "0x01", number, "0x02", "0x03", "0x04", "", DEVNET.token.address, 1, 0, "0x05"
        )
        blocks.evidence.add_event(event)
    blocks.drop_old({"0x0a"})
    assert blocks.evidence.settlement_events.keys() == {"0x0a", "0x0c"}
