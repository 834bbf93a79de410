"""Test how the EVM rail signs, fee-bumps and proves treasury transfers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.settlement.chain_txs import ChainTx, TransactionVariant, TxState
from florin_server.rails.connection.jsonrpc import LocalTransport
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import parse_coin_transfer, parse_fees
from florin_server.rails.types import SignedTransaction, TransferEffect, TreasuryTransfer

from tests.support.evm_harness import (
    CHAIN,
    ETHER,
    RELAYER,
    TOKEN,
    make_chain_settings,
    open_lab,
    to_account,
)
from tests.support.payout_harness import BUYER, TREASURY

COIN = TreasuryTransfer("pout_1", f"{CHAIN}/slip44:60", to_account(BUYER), 12345)
DOLLARS = TreasuryTransfer("pout_2", TOKEN, to_account(BUYER), 678)


@pytest.fixture
async def lab():
    chain = await open_lab(treasury=TREASURY)
    await chain.send(to=TREASURY.address, value=ETHER)
    await chain.send_tokens(TREASURY.address, 1000)
    yield chain
    await chain.rail.close()
    await chain.chain.close()


def written(signed: SignedTransaction) -> ChainTx:
    return ChainTx(
        "tx_1",
        CHAIN,
        TREASURY.address,
        0,
        signed.raw,
        signed.hash,
        TxState.SENT,
        0,
        payout_ids=("pout_1",),
    )


@pytest.mark.parametrize("transfer", [COIN, DOLLARS])
async def test_a_raised_transfer_moves_the_same(lab, transfer):
    payouts = lab.rail.payouts
    tx = written(await payouts.sign(0, transfer))
    raised = await lab.rail.account_nonces.bump_fee(tx)
    assert parse_coin_transfer(raised.raw) == parse_coin_transfer(tx.raw)
    assert parse_fees(raised.raw).max_fee > parse_fees(tx.raw).max_fee
    assert parse_fees(raised.raw).tip > parse_fees(tx.raw).tip
    tx = replace(tx, bumps=(TransactionVariant(raised.raw, raised.hash),))
    await lab.rail.relay.broadcast(raised.raw)
    assert await payouts.read_effect(tx, raised.hash, transfer) is TransferEffect.EXACT
    for other in (
        replace(transfer, value=transfer.value + 1),
        replace(transfer, account=to_account(RELAYER.address)),
    ):
        assert await payouts.read_effect(tx, raised.hash, other) is TransferEffect.OTHER
    await lab.mine(3)
    # one of its own variants used its nonce
    assert not await payouts.cannot_be_mined(tx, None)
    assert await payouts.cannot_be_mined(replace(tx, bumps=()), None)


async def test_a_gap_is_filled_with_nothing(lab):
    held = await lab.balance(TREASURY.address)
    filler = await lab.rail.account_nonces.sign_noop(TREASURY.address, 0)
    await lab.rail.relay.broadcast(filler.raw)
    assert parse_coin_transfer(filler.raw) == (TREASURY.address, 0)
    assert await lab.rail.account_nonces.get_next_nonce(TREASURY.address) == 1
    assert await lab.balance(TREASURY.address) == held


async def test_funded_payout_meets_no_obstacle(lab):
    payouts = lab.rail.payouts
    for transfer in (COIN, DOLLARS):
        assert await payouts.check_transfer(transfer, ()) is None
    assert "lacks 34 minor units" in await payouts.check_transfer(
        replace(DOLLARS, value=1000), (replace(DOLLARS, value=34),)
    )
    assert "lacks 5 wei" in await payouts.check_transfer(
        replace(COIN, value=ETHER), (replace(COIN, value=5),)
    )


async def test_treasury_and_relayer_need_keys_of_their_own(lab):
    transport = LocalTransport(lab.chain.handle)
    with pytest.raises(ValueError, match="need different keys"):
        EvmRail(make_chain_settings(), RELAYER, transport, treasury=RELAYER)
