"""Transfers out of a treasury, as the EVM rail signs them, raises them and proves them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.settlement.chain_txs import ChainTx, TxState, Variant
from florin_server.rails.connection.jsonrpc import LocalTransport
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending.transactions import coin_of, fees_of
from florin_server.rails.types import Effect, Signed, Transfer

from tests.support.evm_lab import CHAIN, ETHER, RELAYER, TOKEN, account_of, open_lab, settings
from tests.support.payout_lab import BUYER, TREASURY

COIN = Transfer("pout_1", f"{CHAIN}/slip44:60", account_of(BUYER), 12345)
DOLLARS = Transfer("pout_2", TOKEN, account_of(BUYER), 678)


@pytest.fixture
async def lab():
    made = await open_lab(treasury=TREASURY)
    await made.send(to=TREASURY.address, value=ETHER)
    await made.send_tokens(TREASURY.address, 1000)
    yield made
    await made.rail.close()
    await made.chain.close()


def written(signed: Signed) -> ChainTx:
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
    raised = await lab.rail.account_nonces.bump(tx)
    assert coin_of(raised.raw) == coin_of(tx.raw)
    assert fees_of(raised.raw).max_fee > fees_of(tx.raw).max_fee
    assert fees_of(raised.raw).tip > fees_of(tx.raw).tip
    tx = replace(tx, bumps=(Variant(raised.raw, raised.hash),))
    await lab.rail.relay.broadcast(raised.raw)
    assert await payouts.effect(tx, raised.hash, transfer) is Effect.EXACT
    for other in (
        replace(transfer, value=transfer.value + 1),
        replace(transfer, account=account_of(RELAYER.address)),
    ):
        assert await payouts.effect(tx, raised.hash, other) is Effect.OTHER
    await lab.mine(3)
    # its nonce was used by one of its own variants
    assert not await payouts.cannot_be_mined(tx, None)
    assert await payouts.cannot_be_mined(replace(tx, bumps=()), None)


async def test_a_gap_is_filled_with_nothing(lab):
    held = await lab.balance(TREASURY.address)
    filler = await lab.rail.account_nonces.fill(TREASURY.address, 0)
    await lab.rail.relay.broadcast(filler.raw)
    assert coin_of(filler.raw) == (TREASURY.address, 0)
    assert await lab.rail.account_nonces.next_nonce(TREASURY.address) == 1
    assert await lab.balance(TREASURY.address) == held


async def test_what_would_go_through_meets_no_obstacle(lab):
    payouts = lab.rail.payouts
    for transfer in (COIN, DOLLARS):
        assert await payouts.obstacle(transfer, ()) is None
    assert "lacks 34 minor units" in await payouts.obstacle(
        replace(DOLLARS, value=1000), (replace(DOLLARS, value=34),)
    )
    assert "lacks 5 wei" in await payouts.obstacle(
        replace(COIN, value=ETHER), (replace(COIN, value=5),)
    )


async def test_treasury_and_relayer_need_keys_of_their_own(lab):
    transport = LocalTransport(lab.chain.handle)
    with pytest.raises(ValueError, match="keys of their own"):
        EvmRail(settings(), RELAYER, transport, treasury=RELAYER)
