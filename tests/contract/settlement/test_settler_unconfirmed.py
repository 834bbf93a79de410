"""Money that is on the chain before, or without, a word of its wallet is never lost.

Wallets send what an option's build told them, never fetch and never confirm; Florin is down
meanwhile; others flood the settlement contract with events that are nobody's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

import pytest
from florin_server.chains.evm import abi
from florin_server.devnet.evm import DEVNET
from florin_server.domain.payments.payment import Status
from florin_server.flows.payments.confirm import confirm
from florin_server.flows.payments.fetch import fetch
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import APPROVE, Terms, bare
from florin_server.rails.evm.settings import EvmCoin
from florin_server.rails.types import Paid
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import operation
from florin_server.store.ledger import ledger
from florin_server.store.operator import installation
from florin_server.store.payments import payments
from florin_server.workers.settlement import direct_payments
from florin_server.workers.settlement.blocks import follow

from tests.support import postgres
from tests.support.evm_lab import CHAIN, PRICE, TOKEN, buyer, reply, signed
from tests.support.settler_lab import BUYER, Works, works
from tests.support.settler_steps import ETHER, TTL_S, WALLET, coin, looks, offered, sent

MUTE = "00"  # an account's code that takes every call, and says nothing
GRACE_S = 300


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path, coin=EvmCoin(name="Test Ether", symbol="tETH")) as running:
        yield running


async def token(shop: Works):
    """The buyer's account has code that cannot sign, and approved the price long ago."""
    await shop.lab.fund(WALLET)
    await shop.lab.delegate(WALLET, MUTE)
    data = APPROVE + abi.address(DEVNET.settler) + abi.number(PRICE)
    await shop.lab.send(key=bytes(WALLET.key), to=DEVNET.token.address, data=data)
    return await offered(shop, f"caip19/{TOKEN}")


async def dollar(shop: Works):
    """The buyer signs."""
    return await offered(shop, "iso4217/USD")


WAYS = pytest.mark.parametrize("way", [coin, token])


async def settled(shop: Works, option, output: str) -> str:
    """The transaction by which somebody settles what the buyer signed."""
    signature = bytes.fromhex(json.loads(output)[2:])
    pay = Terms.of(option).pay(bare(option.payer), signature, shop.lab.key_gas)
    receipt = await shop.lab.send(to=DEVNET.settler, data=contract.settle([pay]))
    return str(receipt["transactionHash"])


async def fetched(shop: Works, payment, option, tx_hash: str):
    """The wallet comes back: it asks what to send, and tells what it has sent."""
    assert option.build is not None
    await fetch(shop.app, BUYER, payment.id, option.id, option.build.data)
    output = json.dumps(tx_hash)
    return await confirm(shop.app, BUYER, payment.id, option.id, [[output]])


async def followed_to_the_end(shop: Works) -> None:
    """Notes that all blocks are read, as if what was in them had been missed."""
    head = int(await shop.lab.control.call("eth_blockNumber"), 16)
    now = shop.lab.clock.now_us() // 1_000_000
    await shop.store.write(installation.follow(CHAIN, head, now))


async def returns(shop: Works, payment) -> list[int]:
    """What is to be paid back for a payment."""
    found = await shop.store.read(_payouts())
    return [value for payment_id, value in found if payment_id == payment.id]


@operation
def _payouts():
    from florin_server.store.engine.query import Statement
    from florin_server.store.tables.tables import payout
    from sqlalchemy import select

    return (yield Statement(select(payout.c.payment_id, payout.c.value))())


async def succeeded(shop: Works, payment, tx_hash: str) -> None:
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    await shop.check(ended)
    assert shop.settler.health().problem == ""
    assert await returns(shop, payment) == []


# without fetch and confirm


@WAYS
async def test_what_a_wallet_sends_without_fetch_pays(shop, way):
    payment, option = await way(shop)
    tx_hash = await sent(shop, option)
    await shop.turn()
    # bound at once, so that the buyer is not asked to pay again
    assert await shop.status(payment) == "processing"
    await shop.mine(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_what_a_wallet_sends_without_fetch_while_florin_is_down_pays(shop, way):
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await sent(shop, option)
    await shop.lab.mine(40)
    await shop.restart()
    await shop.turn(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_what_was_paid_before_it_was_fetched_is_found_after_a_restart(shop, way):
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await sent(shop, option)
    await shop.lab.mine(40)
    await shop.restart()
    # it was bound already: the wallet's confirm is told how that stands
    output = json.dumps(tx_hash)
    known = await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    assert known.option_id == option.id
    await shop.turn(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_event_that_a_node_lacked_is_found_when_its_block_is_read_again(shop, way):
    payment, option = await way(shop)
    shop.lab.node.changes["eth_getBlockReceipts"] = reply([])
    shop.lab.node.changes["eth_getLogs"] = reply([])
    tx_hash = await sent(shop, option)
    await shop.turn()
    await shop.mine(3)
    assert await shop.status(payment) == "requires_action"
    del shop.lab.node.changes["eth_getLogs"]
    shop.lab.clock.advance(10)
    await shop.turn(2)
    await succeeded(shop, payment, tx_hash)


@WAYS
async def test_a_true_hash_is_looked_for_since_the_option_was_offered(shop, way):
    """The block is read, its event was missed, and the wallet fetches long after it paid."""
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await sent(shop, option)
    await shop.lab.mine(40)
    shop.store = await open_store(postgres.place(shop.folder))
    await followed_to_the_end(shop)
    await shop.store.close()
    await shop.restart()
    assert await shop.status(payment) == "requires_action"
    assert (await fetched(shop, payment, option, tx_hash)).status == "processing"
    await shop.turn(3)
    await succeeded(shop, payment, tx_hash)


async def test_what_was_signed_and_settled_by_others_before_its_confirm_is_found(shop, monkeypatch):
    """The confirm was verified by a node that lagged: it knew of no block with the event."""
    payment, option = await dollar(shop)
    output = signed(WALLET, option)
    await shop.stop()
    tx_hash = await settled(shop, option, output)
    await shop.lab.mine(40)
    shop.store = await open_store(postgres.place(shop.folder))
    await followed_to_the_end(shop)
    await shop.store.close()
    await shop.restart()
    monkeypatch.setattr(shop.lab.rail.verifier, "verify", lambda *_: asyncio.sleep(0))
    await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)


# too late


@WAYS
async def test_what_comes_while_florin_is_down_and_its_payment_expires_goes_back(shop, way, caplog):
    payment, option = await way(shop)
    await shop.stop()
    tx_hash = await sent(shop, option)
    shop.lab.clock.advance(TTL_S)
    await shop.lab.mine(5)
    with caplog.at_level(logging.ERROR):
        await shop.restart()
        await shop.turn(2)
    assert (await shop.now(payment)).at(shop.lab.clock.now_us()).status is Status.EXPIRED
    assert await returns(shop, payment) == [PRICE]
    assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text
    assert await shop.store.read(ledger.check()) == []


async def test_what_a_stranger_settles_goes_back_if_the_payment_expires_before_it_is_final(
    shop, caplog
):
    payment, option = await dollar(shop)
    tx_hash = await settled(shop, option, signed(WALLET, option))
    await shop.turn()
    assert await shop.status(payment) == "requires_action"
    shop.lab.clock.advance(TTL_S)
    with caplog.at_level(logging.ERROR):
        await shop.mine(3)
    assert await returns(shop, payment) == [PRICE]
    assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text


async def test_the_clock_may_run_out_while_money_is_bound(shop, monkeypatch, caplog):
    """The payment expires after its event was looked up, and before it is bound."""
    payment, option = await coin(shop)
    accept = payments.accept

    def slow(*args, **how):
        shop.lab.clock.advance(TTL_S)
        late = (*args[:-1], shop.lab.clock.now_us())
        return accept(*late, **how)

    tx_hash = await sent(shop, option)
    monkeypatch.setattr(direct_payments.payments, "accept", slow)
    with caplog.at_level(logging.ERROR):
        await shop.mine(3)
    assert await returns(shop, payment) == [PRICE]
    assert f"payment {payment.id} was paid late, or twice, by {tx_hash}" in caplog.text


# what nodes differ about


async def doubted(shop: Works, monkeypatch, times: int) -> list[int]:
    """Nodes differ so often about each fact; what is left of that."""
    rail, left = shop.lab.rail, [times]

    async def agreed(facts):
        left[0] -= 1
        return dict.fromkeys(facts, left[0] < 0)

    monkeypatch.setattr(type(rail.observer), "agreement", 2)
    monkeypatch.setattr(rail.observer, "agreed", agreed)
    return left


async def test_late_money_that_nodes_differ_about_goes_back_once_they_agree(shop, monkeypatch):
    """A node that has lost a receipt for a while must not keep the buyer's money from him."""
    payment, option = await coin(shop)
    pay = replace(Terms.of(option).pay(bare(option.payer), b""), valid_before=2**64)
    await shop.lab.send(
        key=bytes(WALLET.key), to=DEVNET.settler, value=pay.value, data=contract.pay(pay)
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


async def test_what_a_stranger_settled_and_nodes_differ_about_is_found_again(shop, monkeypatch):
    payment, option = await dollar(shop)
    tx_hash = await settled(shop, option, signed(WALLET, option))
    left = await doubted(shop, monkeypatch, 2)
    await shop.mine(3)
    assert await shop.status(payment) == "requires_action"
    for _ in range(3):
        shop.lab.clock.advance(11)
        await shop.mine(2)
    assert left[0] < 0
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)


# the contract says that it is paid


async def test_what_the_contract_says_is_paid_never_fails(shop, caplog):
    payment, option = await coin(shop)
    tx_hash = await sent(shop, option)

    def without_logs(_, answer):
        found = [{**one, "logs": []} for one in answer["result"] or ()]
        return {"id": answer["id"], "result": found}

    shop.lab.node.changes = {"eth_getBlockReceipts": without_logs, "eth_getLogs": reply([])}
    assert (await fetched(shop, payment, option, tx_hash)).status == "processing"
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            shop.lab.clock.advance(TTL_S + GRACE_S)
            await shop.mine(3)
    assert await shop.status(payment) == "processing"
    assert f"paid, but their events are missing: {payment.id}" in shop.settler.health().problem
    assert sum(payment.id in one.message for one in caplog.records) == 1
    shop.lab.node.changes = {}
    shop.lab.clock.advance(11)
    await shop.turn(3)
    await succeeded(shop, payment, tx_hash)


async def test_what_a_wallet_never_sent_still_fails(shop):
    payment, option = await coin(shop)
    assert (await fetched(shop, payment, option, "0x" + "77" * 32)).status == "processing"
    shop.lab.clock.advance(TTL_S + GRACE_S)
    await shop.mine(3)
    shop.lab.clock.advance(11)
    ended = await shop.end(payment)
    assert (ended.status, "lapsed" in (ended.failure_detail or "")) == ("failed", True)


# what is nobody's


@pytest.mark.parametrize("change", ["value", "fee", "dest", "token", "payer"])
async def test_an_event_with_our_reference_and_anything_else_changes_nothing(shop, change, caplog):
    payment, option = await coin(shop)
    pay = Terms.of(option).pay(bare(option.payer), b"")
    other = buyer(79)
    await shop.lab.send(to=other.address, value=10**18)
    await shop.lab.fund(other)
    data = APPROVE + abi.address(DEVNET.settler) + abi.number(PRICE)
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
    call = contract.pay(foreign)
    receipt = await shop.lab.send(key=bytes(other.key), to=DEVNET.settler, value=value, data=call)
    assert [log["topics"][0] for log in receipt["logs"]].count(contract.PAID) == 1
    with caplog.at_level(logging.WARNING):
        await shop.mine(4)
    assert await shop.status(payment) == "requires_action"
    assert shop.settler.health().remembered_events == 0
    assert payment.id not in caplog.text
    # the buyer pays all the same
    tx_hash = await sent(shop, option)
    await shop.mine(3)
    await succeeded(shop, payment, tx_hash)


async def test_the_same_call_on_another_chain_pays_for_nothing(shop):
    """The contract has one address on all chains, and a test network's coin costs nothing."""
    payment, option = await coin(shop)
    there = replace(
        option, id="opt_there", chain_id="eip155:1", asset=ETHER.replace(CHAIN, "eip155:1")
    )
    await shop.store.write(_moved(option, there))
    issued = await shop.lab.rail.offers.build(there, (), shop.lab.clock.now_us())
    await shop.store.write(payments.put_issued(issued))
    await sent(shop, option)
    shop.lab.clock.advance(TTL_S)
    await shop.mine(4)
    assert await returns(shop, payment) == []
    assert await shop.store.read(payments.confirmation(payment.id)) is None


@operation
def _moved(option, there):
    from florin_server.store.engine.query import Statement, param
    from florin_server.store.tables.tables import payment_option
    from sqlalchemy import delete

    yield Statement(delete(payment_option).where(payment_option.c.id == param("id_")))(
        id_=option.id
    )
    yield from payments.put_options([there])


BLOCKS, A_BLOCK = 400, 50


async def test_twenty_thousand_events_of_others_are_forgotten(shop, monkeypatch):
    """Each is looked up once, by index, in the block that it comes in."""
    payment, option = await dollar(shop)
    rail, numbers, looked_up = shop.lab.rail, iter(range(10**6)), []
    block, by_reference = rail.blocks.block, direct_payments.offered.by_reference
    glance = rail.blocks.glance

    async def flooded(number):
        view = await block(number)
        if view is None:
            return None
        events = tuple(
            Paid(
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
        return replace(view, paid=(*view.paid, *events))

    def counted(chain_id, references):
        looked_up.append(len(references))
        return by_reference(chain_id, references)

    async def busy(since):
        return replace(await glance(since), quiet=False)

    monkeypatch.setattr(rail.blocks, "block", flooded)
    monkeypatch.setattr(rail.blocks, "glance", busy)
    monkeypatch.setattr(direct_payments.offered, "by_reference", counted)
    await shop.turn()
    looked_up.clear()
    for _ in range(BLOCKS // 50):
        await shop.lab.mine(50)
        await shop.turn()
        assert shop.settler.health().remembered_events == 0
    assert sum(looked_up) == BLOCKS * A_BLOCK
    assert max(looked_up) <= 500
    # what is ours is seen among them, and kept until it is final
    tx_hash = await settled(shop, option, signed(WALLET, option))
    await shop.mine(3)
    assert (await shop.now(payment)).tx_id == tx_hash


async def test_what_is_known_of_deep_blocks_is_dropped_but_for_what_is_waited_for(shop):
    blocks = follow(shop.lab.rail)
    await blocks.start()
    await shop.lab.mine(70)
    await looks(blocks)
    for ref, number in (("0x0a", 1), ("0x0b", 1), ("0x0c", blocks.head)):
        known = Paid(
            ref, "0x01", number, "0x02", "0x03", "0x04", "", DEVNET.token.address, 1, 0, "0x05"
        )
        blocks.evidence.add_paid(known)
    blocks.forget_old({"0x0a"})
    assert blocks.evidence.paid.keys() == {"0x0a", "0x0c"}
