"""Durable nonces of the embedded cluster: free ones, and offers that take one."""

from __future__ import annotations

from florin_server.domain.chains.solana import spl

from tests.support.solana import (
    get_transaction,
    list_instructions,
)
from tests.support.solana_offers import SolanaOffer


def list_free_nonces(desk) -> list[str]:
    """Return the values of the nonces that are free."""
    query = "SELECT value FROM nonce_account WHERE payment_id IS NULL AND value != ''"
    return [value for (value,) in desk.select(query)]


def is_durable(offer: SolanaOffer) -> bool:
    first = list_instructions(get_transaction(offer.action).message)[0]
    return (first.program_id, bytes(first.data)) == (spl.SYSTEM, spl.ADVANCE_NONCE)
