"""Final transactions that a reorg could still undo, with their blocks."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from florin_server.db.engine.query import (
    Op,
    Row,
    Statement,
    is_in,
    operation,
)
from florin_server.db.tables.tables import watched_tx

_FIND_WATCHED = Statement(
    select(
        watched_tx.c.tx_hash,
        watched_tx.c.chain_id,
        watched_tx.c.block_number,
        watched_tx.c.block_hash,
    ).where(is_in(watched_tx.c.chain_id, "chains"), is_in(watched_tx.c.tx_hash, "hashes"))
)


@operation
def find_watched_blocks(transactions: Collection[tuple[str, str]]) -> Op[dict[str, Row]]:
    """Return the watched transactions among some (chain and hash): rows of `blocks`, by hash."""
    if not transactions:
        return {}
    chains, hashes = ({transaction[at] for transaction in transactions} for at in (0, 1))
    return {row[0]: row[1:] for row in (yield _FIND_WATCHED(chains=chains, hashes=hashes))}
