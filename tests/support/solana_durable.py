"""Durable nonces of the embedded cluster: free ones, and offers that take one."""

from __future__ import annotations

from florin_server.chains.solana import spl

from tests.support.solana import (
    steps,
    transaction_of,
)
from tests.support.solana_offers import Offer


def free(desk) -> list[str]:
    """The values of the nonces that nobody has."""
    query = "SELECT value FROM nonce_account WHERE payment_id IS NULL AND value != ''"
    return [value for (value,) in desk.select(query)]


def is_durable(offer: Offer) -> bool:
    first = steps(transaction_of(offer.action).message)[0]
    return (first.program_id, bytes(first.data)) == (spl.SYSTEM, spl.ADVANCE_NONCE)
