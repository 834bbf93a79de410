"""Solana's coin as an asset."""

from __future__ import annotations

from florin_server.devnet.solana import SOLNET

CHAIN = SOLNET.chain_id
GBP = {"unit": "iso4217/GBP", "value": "3000"}
LAMPORTS = 250_000_000  # for GBP at 120.00
