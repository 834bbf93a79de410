"""Final transactions that a reorganisation might still undo, with their blocks."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from florin_server.store.engine.query import Op, Row, Statement, any_of, operation
from florin_server.store.tables.tables import watched_tx

_WATCHED = Statement(
    select(
        watched_tx.c.tx_hash,
        watched_tx.c.chain_id,
        watched_tx.c.block_number,
        watched_tx.c.block_hash,
    ).where(any_of(watched_tx.c.chain_id, "chains"), any_of(watched_tx.c.tx_hash, "hashes"))
)


@operation
def watched(transactions: Collection[tuple[str, str]]) -> Op[dict[str, Row]]:
    """Those of some transactions (chain and hash) that are watched: rows of `blocks`, by hash."""
    if not transactions:
        return {}
    chains, hashes = ({one[at] for one in transactions} for at in (0, 1))
    return {row[0]: row[1:] for row in (yield _WATCHED(chains=chains, hashes=hashes))}
