"""What the treasury signed, as a node tells it, among transactions of strangers."""

from __future__ import annotations

import pytest
from florin_server.rails.solana.reading.node import Node
from florin_server.rails.solana.sending.history import SolanaTreasuryHistory
from florin_server.rails.types import RailUnavailable

from tests.support.solana_kit import wallet
from tests.support.solana_lab import open_lab

SIGNATURE = "1" * 64


@pytest.mark.parametrize("code", [-32015, -32004])
async def test_stranger_s_transaction_of_a_later_version_is_passed_over(code):
    """Nodes refuse to tell it; anybody may name the treasury in one, with any memo."""

    def refuse(_params, answer):
        return {"id": answer["id"], "error": {"code": code, "message": "not supported"}}

    async with open_lab() as lab:
        lab.between.changes["getTransaction"] = refuse
        history = SolanaTreasuryHistory(Node(lab.rail.rpc), wallet(1).pubkey())
        if code == -32015:
            assert await history.find_signed(SIGNATURE) is None
            return
        with pytest.raises(RailUnavailable):
            await history.find_signed(SIGNATURE)
