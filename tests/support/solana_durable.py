"""Durable nonces of the embedded cluster: free ones, and offers that take one."""

from __future__ import annotations

import asyncio

from florin_server.chains.solana import spl

from tests.support.solana import (
    SolanaNode,
    steps,
    transaction_of,
)
from tests.support.solana_offers import Offer


async def until(desk, node: SolanaNode, look) -> None:
    """Lets time and slots pass until something holds."""
    async with asyncio.timeout(20):
        while True:
            if look():
                return
            desk.clock.advance(10)
            await node.fault("slots", slots=2)
            await asyncio.sleep(0.02)


def free(desk) -> list[str]:
    """The values of the nonces that nobody has."""
    query = "SELECT value FROM nonce_account WHERE payment_id IS NULL AND value != ''"
    return [value for (value,) in desk.select(query)]


def is_durable(offer: Offer) -> bool:
    first = steps(transaction_of(offer.action).message)[0]
    return (first.program_id, bytes(first.data)) == (spl.SYSTEM, spl.ADVANCE_NONCE)
