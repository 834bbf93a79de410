"""Test how the treasury's own transactions are read from a node's history among strangers'."""

from __future__ import annotations

import pytest
from florin_server.rails.solana.reading.node import SolanaNode
from florin_server.rails.solana.sending.history import SolanaTreasuryHistory
from florin_server.rails.types import RailUnavailable

from tests.support.solana_devnet import make_wallet
from tests.support.solana_rail_harness import open_lab

SIGNATURE = "1" * 64


@pytest.mark.parametrize("code", [-32015, -32004])
async def test_stranger_s_transaction_of_a_later_version_is_passed_over(code):
    """Nodes refuse such transactions, and anyone can name the treasury in one, with any memo."""

    def refuse(_params, answer):
        return {"id": answer["id"], "error": {"code": code, "message": "not supported"}}

    async with open_lab() as lab:
        lab.transport.changes["getTransaction"] = refuse
        history = SolanaTreasuryHistory(SolanaNode(lab.rail.rpc), make_wallet(1).pubkey())
        if code == -32015:
            assert await history.find_transaction(SIGNATURE) is None
            return
        with pytest.raises(RailUnavailable):
            await history.find_transaction(SIGNATURE)
