"""Test a chain without a coin, like Tempo.

Fees are in a token, balances are placeholders, and a new slot costs 250,000 gas.
"""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.evm.token_fees import PLACEHOLDER
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import FEE_MANAGER
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.setup.deployment import (
    ContractDeployment,
    DeployableContract,
    DeploymentFailed,
)
from florin_server.rails.evm.setup.fee_choice import FeeTokenChoice
from florin_server.rails.types import TransferEffect, TreasuryTransfer

from tests.support.evm_harness import (
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    make_chain_settings,
    open_lab,
    to_account,
)
from tests.support.fee_token import DOLLAR, PRICES, SETTINGS, choose_fee_token, make_tempo_chains

TREASURY_KEY = b"\x74" * 32
TREASURY = EvmSigner(TREASURY_KEY)
BUYER = "0x" + "b0" * 20


@pytest.fixture
async def lab():
    lab = await open_lab(evm=make_tempo_chains(), treasury=TREASURY, **SETTINGS)
    await lab.give_gas(TREASURY.address, 50)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def test_fee_is_charged_and_reported_in_the_fee_token(lab):
    assert await lab.rail.list_problems() == ()
    assert lab.rail.native_asset == TOKEN
    item = await lab.create_verified_item(1, fee=15_000)
    places = (RELAYER.address, FEE_MANAGER)
    held, fees = [await lab.balance(place) for place in places]
    signed = await lab.settle(item)
    assert await lab.balance(MERCHANT) == PRICE - 15_000
    assert await lab.balance(FEES) == 15_000
    mined = (await lab.rail.blocks.find_mined([signed.hash]))[signed.hash]
    assert mined.success
    assert mined.gas_used > 2 * PRICES.slot, mined.gas_used
    now, earned = [await lab.balance(place) for place in places]
    assert mined.gas_cost == held - now == earned - fees > 0


async def test_balances_of_the_coin_are_a_placeholder_that_nothing_relies_on(lab):
    result = await lab.control.call("eth_getBalance", "0x" + "99" * 20, "latest")
    assert int(result, 16) == PLACEHOLDER
    poor = EvmRail(make_chain_settings(**SETTINGS), EvmSigner(b"\x09" * 32), lab.node)
    problems = await poor.relay.list_shortages()
    assert any(
        f"has too little of the fee token {DOLLAR}" in shortage.text for shortage in problems
    )
    await poor.close()


async def test_key_that_chose_no_fee_token_is_named_until_it_chooses(lab):
    (problem,) = await lab.rail.relay.list_shortages()
    assert problem.text.endswith(f"to pay fees with: run `florin chain deploy {CHAIN}`")
    choice = FeeTokenChoice(EvmNode(lab.rail.rpc), lab.rail.chain, RELAYER, lab.clock)
    assert not await choice.is_made()
    with pytest.raises(DeploymentFailed, match="has not chosen"):
        await choice.require_made()
    await choice.perform_step(await choice.build_choice_step())
    await choice.require_made()
    assert await lab.rail.relay.list_shortages() == ()


async def test_payout_in_the_fee_token_is_exact_beside_its_own_fee(lab):
    transfer = TreasuryTransfer("pout_1", TOKEN, to_account(BUYER), 678)
    payouts = EvmPayouts(
        EvmNode(lab.rail.rpc), lab.rail.chain, TREASURY, lab.rail.finality, lab.rail.gas_shares
    )
    result = await payouts.check_transfer(transfer, ())
    assert result is not None
    assert result.startswith(f"the treasury {TREASURY.address} has not chosen")
    await choose_fee_token(lab, TREASURY_KEY)
    assert await payouts.check_transfer(transfer, ()) is None
    had = await lab.balance(TREASURY.address)
    nonce = await lab.rail.account_nonces.get_next_nonce(TREASURY.address)
    signed = await payouts.sign(nonce, transfer)
    await lab.control.call("eth_sendRawTransaction", "0x" + signed.raw.hex())
    assert await lab.balance(BUYER) == 678
    mined = (await lab.rail.blocks.find_mined([signed.hash])).get(signed.hash)
    cost = had - 678 - await lab.balance(TREASURY.address)
    assert mined is not None
    assert mined.gas_cost == cost > 0
    assert await payouts.read_effect(tx_of(signed), signed.hash, transfer) is TransferEffect.EXACT


def tx_of(signed):
    """Return a transaction with its variants; `effect` reads nothing else, and only for coin."""
    return type("Tx", (), {"variants": (signed,)})()


async def test_payout_that_leaves_too_little_for_its_fee_waits(lab):
    await choose_fee_token(lab, TREASURY_KEY)
    held = await lab.balance(TREASURY.address)
    payouts = EvmPayouts(
        EvmNode(lab.rail.rpc), lab.rail.chain, TREASURY, lab.rail.finality, lab.rail.gas_shares
    )
    result = await payouts.check_transfer(
        TreasuryTransfer("pout_1", TOKEN, to_account(BUYER), held), ()
    )
    assert result is not None
    assert result.endswith(f"minor units of {TOKEN} for gas")
    coin = TreasuryTransfer("pout_2", f"{CHAIN}/slip44:60", to_account(BUYER), 1)
    assert await payouts.check_transfer(coin, ()) == "the chain has no native coin to send"


async def test_fee_reported_in_a_different_token_is_ignored(lab):
    def other(_, answer):
        return answer | {"result": answer["result"] | {"feeToken": DEVNET.euro.address}}

    signed = await lab.settle(await lab.create_verified_item(1))
    lab.node.changes = {"eth_getTransactionReceipt": other}
    mined = (await lab.rail.blocks.find_mined([signed.hash]))[signed.hash]
    assert (mined.success, mined.gas_cost) == (True, None)


async def test_fee_manager_and_fee_token_receive_no_payments(lab):
    assert lab.rail.reserved_accounts[f"{CHAIN}:{FEE_MANAGER}"] == "the fee manager"
    assert lab.rail.reserved_accounts[f"{CHAIN}:{DOLLAR}"] == "a token contract"


async def test_fee_token_that_is_none_stops_the_chain(lab):
    rail = EvmRail(
        make_chain_settings(**SETTINGS | {"fee_token": "0x" + "12" * 20}), RELAYER, lab.node
    )
    (problem,) = await rail.list_problems()
    assert problem.endswith("must have 6 decimals")
    assert rail.assets == {}
    await rail.close()


async def test_deployer_funding_fails_on_a_chain_without_a_coin(lab):
    work = ContractDeployment(
        EvmNode(lab.rail.rpc),
        lab.rail.chain,
        RELAYER,
        DeployableContract(b"\x00", b"\x00"),
        lab.clock,
    )
    with pytest.raises(DeploymentFailed, match="no coin to create it with"):
        await work.find_funding_step()


async def test_value_and_unpaid_fees_are_refused_by_the_chain(lab):
    with pytest.raises(RpcError, match="cannot carry value"):
        await lab.send(to=BUYER, value=1)
    with pytest.raises(RpcError, match="insufficient funds"):
        await lab.send(key=b"\x09" * 32, to=BUYER)


async def test_token_that_is_not_the_fee_token_is_paid_out_too(lab):
    await choose_fee_token(lab, TREASURY_KEY)
    payouts = EvmPayouts(
        EvmNode(lab.rail.rpc), lab.rail.chain, TREASURY, lab.rail.finality, lab.rail.gas_shares
    )
    result = await payouts.check_transfer(
        TreasuryTransfer("pout_1", EURO, to_account(BUYER), 5), ()
    )
    assert result == f"the treasury {TREASURY.address} lacks 5 minor units of {EURO}"
