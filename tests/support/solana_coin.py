"""Solana's native coin as an asset."""

from __future__ import annotations

from florin_sandbox.devnet.solana import SOLANA_DEVNET

CHAIN = SOLANA_DEVNET.chain_id
GBP = {"unit": "iso4217/GBP", "value": "3000"}
LAMPORTS = 250_000_000  # for GBP at 120.00
