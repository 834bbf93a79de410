"""Test the largest fee of a payment on Solana, as the settings allow it."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.rails.solana.settings import SolanaChainSettings
from pydantic import ValidationError

from tests.support.solana import SolanaTestWallet


def test_cap_below_the_fee_that_florin_offers_is_refused_at_start():
    usual = 10_200
    chain = {
        "reference": SOLANA_DEVNET.chain_id.removeprefix("solana:"),
        "name": "Test",
        "treasury": SolanaTestWallet().address,
    }
    assert SolanaChainSettings(**chain).payment_fee_max == 5 * usual
    assert SolanaChainSettings(**chain, fee_max=20_000).payment_fee_max == 20_000
    with pytest.raises(ValidationError, match="below what one payment costs"):
        SolanaChainSettings(**chain, compute_price=1_000_000, fee_max=20_000)
