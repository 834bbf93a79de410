"""Whom data is asked about."""

from __future__ import annotations

from florin_server.domain.money import Amount

from tests.support.store_kit import (
    CHAIN,
)

ASKED = Amount("iso4217/USD", 5000)
OTHER = f"{CHAIN}:0x{'dd' * 20}"
