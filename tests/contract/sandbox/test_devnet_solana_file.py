"""Test the file that holds the embedded Solana chain."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.solana import DevChainError
from florin_server.base.clock import TestClock
from florin_server.domain.chains.solana import spl

from tests.support.solana_devnet import (
    START_S,
    TOKEN_2022,
    SolanaNodeError,
    make_coin_transfer,
    make_payment,
    make_wallet,
    open_node,
)

BUYER, RELAYER, MERCHANT = make_wallet(1), make_wallet(2), make_wallet(3).pubkey()
SOL = spl.LAMPORTS_PER_SOL


async def test_restarted_chain_has_the_same_state_and_continues(tmp_path):
    path, clock = tmp_path / "deeper" / "solana.db", TestClock(START_S * 1_000_000)
    async with open_node(path, clock, slot_s=0.4) as node:
        await node.fund(BUYER)
        wire = await node.make_transaction([BUYER], *make_payment(BUYER, MERCHANT, 5, TOKEN_2022))
        signature = await node.send(wire)
        await node.fault("slots", slots=40)
        before = [await node.status(signature), await node.blockhash(), await node.ask("getSlot")]
        # closing an account leaves nothing of it
        rest = await node.coin(BUYER.pubkey()) - 5000
        await node.send(
            await node.make_transaction([BUYER], make_coin_transfer(BUYER, RELAYER.pubkey(), rest))
        )
    async with open_node(path, clock, slot_s=0.4) as node:
        after = [await node.status(signature), await node.blockhash(), await node.ask("getSlot")]
        assert after == before
        assert await node.tokens(MERCHANT, TOKEN_2022) == 5
        assert await node.coin(BUYER.pubkey()) == 0
        with pytest.raises(SolanaNodeError, match="already been processed"):
            await node.send(wire)
        again = await node.send(
            await node.make_transaction([RELAYER], make_coin_transfer(RELAYER, MERCHANT, SOL // 2))
        )
        assert (await node.status(again))["err"] is None


async def test_a_clock_that_was_set_back_does_not_turn_slots_back(tmp_path):
    path, clock = tmp_path / "solana.db", TestClock(START_S * 1_000_000)
    async with open_node(path, clock, slot_s=0.4) as node:
        clock.advance(400)
        await node.fund(BUYER)
        slot = await node.ask("getSlot", {"commitment": "processed"})
    async with open_node(path, TestClock(START_S * 1_000_000), slot_s=0.4) as node:
        assert await node.ask("getSlot", {"commitment": "processed"}) == slot
        node.clock.advance(0.4)
        assert await node.fault("slots", slots=1) == slot + 2


async def test_chain_file_is_locked_and_foreign_file_is_refused(tmp_path):
    path = tmp_path / "solana.db"
    async with open_node(path):
        with pytest.raises(DevChainError, match="another process uses"):
            async with open_node(path):
                pass
    other = tmp_path / "other.db"
    other.write_bytes(b"no chain at all, " * 100)
    with pytest.raises(DevChainError, match="is not a chain"):
        async with open_node(other):
            pass
