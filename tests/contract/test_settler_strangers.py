"""What somebody settled before its wallet confirmed it is bound when it is final, not before."""

from __future__ import annotations

import json

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.flows.confirm import confirm
from florin_server.flows.create import NewPayment, create
from florin_server.flows.options import options
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.terms import Terms, bare

from tests.contract.evm_lab import PRICE, account_of, buyer, signed
from tests.contract.settler_lab import BUYER, MERCHANT, SHOP, works

WALLET = buyer(78)


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def unconfirmed(shop):
    """A payment whose buyer signed, and the output of its wallet."""
    ends = shop.lab.clock.now_us() // 1_000_000 + 900
    wanted = NewPayment("iso4217/USD", "150", expires_at=ends)
    made = await create(shop.app, BUYER, SHOP, wanted, lambda _: b"")
    (option,) = (await options(shop.app, BUYER, made.id, [account_of(WALLET)])).options
    return made, option, signed(WALLET, option)


async def settled(shop, option, output):
    """The transaction by which somebody settles it."""
    pay = Terms.of(option).pay(bare(option.payer), bytes.fromhex(json.loads(output)[2:]))
    receipt = await shop.lab.send(to=DEVNET.settler, data=contract.settle([pay]))
    return receipt["transactionHash"]


async def test_it_is_bound_once_the_event_is_final(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.turn(2)
    assert await shop.status(payment) == "requires_action"
    await shop.mine()
    assert await shop.status(payment) == "requires_action"
    await shop.mine()
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert shop.settler.health().problem == ""
    await shop.check(ended)
    assert await shop.transactions() == []
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_event_whose_block_is_replaced_binds_nothing(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.turn(2)
    await shop.lab.reorg(1, tx_hash)
    await shop.mine(5)
    assert await shop.status(payment) == "requires_action"
    await confirm(shop.app, BUYER, payment.id, option.id, [[output]])
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id != tx_hash) == ("succeeded", True)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_an_event_that_comes_back_in_another_block_counts_from_there(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.turn(2)
    await shop.lab.mine()
    await shop.lab.reorg(2)
    await shop.turn(2)
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_a_restart_in_between_loses_nothing(shop):
    payment, option, output = await unconfirmed(shop)
    tx_hash = await settled(shop, option, output)
    await shop.mine(2)
    assert await shop.status(payment) in {"processing", "succeeded"}
    await shop.restart()
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", tx_hash)
