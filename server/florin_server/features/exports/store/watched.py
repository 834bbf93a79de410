"""Final transactions that a reorg could still undo, with their blocks."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import select

from florin_server.db.engine.query import Op, Statement, is_in, operation
from florin_server.db.tables.tables import watched_tx_table


class ExportedBlock(NamedTuple):
    """A row of `blocks`."""

    chain_id: str
    block_number: int | None
    block_hash: str


class _WatchedTransaction(NamedTuple):
    tx_hash: str
    block: ExportedBlock


_FIND_WATCHED = Statement(
    select(
        watched_tx_table.c.tx_hash,
        watched_tx_table.c.chain_id,
        watched_tx_table.c.block_number,
        watched_tx_table.c.block_hash,
    ).where(
        is_in(watched_tx_table.c.chain_id, "chains"), is_in(watched_tx_table.c.tx_hash, "hashes")
    ),
    _WatchedTransaction,
    block=ExportedBlock,
)


@operation
def find_watched_blocks(transactions: Collection[tuple[str, str]]) -> Op[dict[str, ExportedBlock]]:
    """Return the watched transactions among some (chain and hash): rows of `blocks`, by hash."""
    if not transactions:
        return {}
    chains = {chain_id for chain_id, _ in transactions}
    hashes = {tx_hash for _, tx_hash in transactions}
    return dict((yield from _FIND_WATCHED.all(chains=chains, hashes=hashes)))
