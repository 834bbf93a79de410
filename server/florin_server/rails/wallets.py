"""The accounts of Florin on a chain."""

from __future__ import annotations

from florin_server.rails.protocol import Rail


def list_wallets(rail: Rail) -> frozenset[str]:
    """Return every account (CAIP-10) of Florin on a chain whose money is in the ledger."""
    return frozenset({rail.treasury, *(f"{rail.chain_id}:{sender}" for sender in rail.senders)})
