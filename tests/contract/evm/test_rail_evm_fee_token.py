"""A chain without a coin, as Tempo: fees in a token, placeholder balances, slots at 250,000 gas."""

from __future__ import annotations

import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.evm.token_fees import PLACEHOLDER
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import FEE_MANAGER
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.setup.deployment import Contract, Deployment, NotDeployed
from florin_server.rails.evm.setup.fee_choice import FeeChoice
from florin_server.rails.types import Effect, Transfer

from tests.support.evm_lab import (
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    account_of,
    open_lab,
    settings,
)
from tests.support.fee_token import DOLLAR, PRICES, SETTINGS, choose, tempo

TREASURY_KEY = b"\x74" * 32
TREASURY = Signer(TREASURY_KEY)
BUYER = "0x" + "b0" * 20


@pytest.fixture
async def lab():
    lab = await open_lab(evm=tempo(), treasury=TREASURY, **SETTINGS)
    await lab.give_gas(TREASURY.address, 50)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def test_payment_settles_and_its_fee_is_charged_and_told_in_the_token(lab):
    assert await lab.rail.problems() == ()
    assert lab.rail.native_asset == TOKEN
    item = await lab.sold(1, fee=15_000)
    places = (RELAYER.address, FEE_MANAGER)
    held, fees = [await lab.balance(one) for one in places]
    signed = await lab.settle(item)
    assert await lab.balance(MERCHANT) == PRICE - 15_000
    assert await lab.balance(FEES) == 15_000
    mined = (await lab.rail.blocks.mined([signed.hash]))[signed.hash]
    assert mined.success
    assert mined.gas_used > 2 * PRICES.slot, mined.gas_used
    now, earned = [await lab.balance(one) for one in places]
    assert mined.gas_cost == held - now == earned - fees > 0


async def test_balances_of_the_coin_are_a_placeholder_that_nothing_relies_on(lab):
    told = await lab.control.call("eth_getBalance", "0x" + "99" * 20, "latest")
    assert int(told, 16) == PLACEHOLDER
    poor = EvmRail(settings(**SETTINGS), Signer(b"\x09" * 32), lab.node)
    problems = await poor.relay.shortages()
    assert any(f"has too little of the fee token {DOLLAR}" in one.text for one in problems)
    await poor.close()


async def test_key_that_chose_no_fee_token_is_named_until_it_chooses(lab):
    (problem,) = await lab.rail.relay.shortages()
    assert problem.text.endswith(f"to pay fees with: run `florin chain deploy {CHAIN}`")
    choice = FeeChoice(Node(lab.rail.rpc), lab.rail.chain, RELAYER, lab.clock)
    assert not await choice.is_made()
    with pytest.raises(NotDeployed, match="has not chosen"):
        await choice.check()
    await choice.perform(await choice.making())
    await choice.check()
    assert await lab.rail.relay.shortages() == ()


async def test_payout_in_the_fee_token_is_exact_beside_its_own_fee(lab):
    transfer = Transfer("pout_1", TOKEN, account_of(BUYER), 678)
    payouts = EvmPayouts(
        Node(lab.rail.rpc), lab.rail.chain, TREASURY, lab.rail.finality, lab.rail.gas_shares
    )
    told = await payouts.obstacle(transfer, ())
    assert told is not None
    assert told.startswith(f"the treasury {TREASURY.address} has not chosen")
    await choose(lab, TREASURY_KEY)
    assert await payouts.obstacle(transfer, ()) is None
    had = await lab.balance(TREASURY.address)
    nonce = await lab.rail.account_nonces.next_nonce(TREASURY.address)
    signed = await payouts.sign(nonce, transfer)
    await lab.control.call("eth_sendRawTransaction", "0x" + signed.raw.hex())
    assert await lab.balance(BUYER) == 678
    mined = (await lab.rail.blocks.mined([signed.hash])).get(signed.hash)
    cost = had - 678 - await lab.balance(TREASURY.address)
    assert mined is not None
    assert mined.gas_cost == cost > 0
    assert await payouts.effect(tx_of(signed), signed.hash, transfer) is Effect.EXACT


def tx_of(signed):
    """Only its variants matter, and only for coin."""
    return type("Tx", (), {"variants": (signed,)})()


async def test_payout_that_leaves_too_little_for_its_fee_waits(lab):
    await choose(lab, TREASURY_KEY)
    held = await lab.balance(TREASURY.address)
    payouts = EvmPayouts(
        Node(lab.rail.rpc), lab.rail.chain, TREASURY, lab.rail.finality, lab.rail.gas_shares
    )
    told = await payouts.obstacle(Transfer("pout_1", TOKEN, account_of(BUYER), held), ())
    assert told is not None
    assert told.endswith(f"minor units of {TOKEN} for gas")
    coin = Transfer("pout_2", f"{CHAIN}/slip44:60", account_of(BUYER), 1)
    assert await payouts.obstacle(coin, ()) == "the chain has no coin to send"


async def test_fee_that_a_node_reports_in_another_token_is_not_told(lab):
    def other(_, answer):
        return answer | {"result": answer["result"] | {"feeToken": DEVNET.euro.address}}

    signed = await lab.settle(await lab.sold(1))
    lab.node.changes = {"eth_getTransactionReceipt": other}
    mined = (await lab.rail.blocks.mined([signed.hash]))[signed.hash]
    assert (mined.success, mined.gas_cost) == (True, None)


async def test_fee_manager_and_fee_token_receive_no_payments(lab):
    assert lab.rail.reserved[f"{CHAIN}:{FEE_MANAGER}"] == "the fee manager"
    assert lab.rail.reserved[f"{CHAIN}:{DOLLAR}"] == "a token contract"


async def test_fee_token_that_is_none_stops_the_chain(lab):
    rail = EvmRail(settings(**SETTINGS | {"fee_token": "0x" + "12" * 20}), RELAYER, lab.node)
    (problem,) = await rail.problems()
    assert problem.endswith("is no fee token of 6 decimals")
    assert rail.assets == {}
    await rail.close()


async def test_deployer_cannot_be_made_where_there_is_no_coin(lab):
    work = Deployment(
        Node(lab.rail.rpc), lab.rail.chain, RELAYER, Contract(b"\x00", b"\x00"), lab.clock
    )
    with pytest.raises(NotDeployed, match="no coin to make it with"):
        await work.funding()


async def test_value_and_unpaid_fees_are_refused_by_the_chain(lab):
    with pytest.raises(RpcError, match="cannot carry value"):
        await lab.send(to=BUYER, value=1)
    with pytest.raises(RpcError, match="insufficient funds"):
        await lab.send(key=b"\x09" * 32, to=BUYER)


async def test_token_that_is_not_the_fee_token_is_paid_out_too(lab):
    await choose(lab, TREASURY_KEY)
    payouts = EvmPayouts(
        Node(lab.rail.rpc), lab.rail.chain, TREASURY, lab.rail.finality, lab.rail.gas_shares
    )
    told = await payouts.obstacle(Transfer("pout_1", EURO, account_of(BUYER), 5), ())
    assert told == f"the treasury {TREASURY.address} lacks 5 minor units of {EURO}"
