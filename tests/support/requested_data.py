"""Buyers whose data is requested."""

from __future__ import annotations

from florin_server.domain.money import Amount

from tests.support.store_factories import (
    CHAIN,
)

REQUESTED_AMOUNT = Amount("iso4217/USD", 5000)
OTHER_ACCOUNT = f"{CHAIN}:0x{'dd' * 20}"
