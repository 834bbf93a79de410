"""Our transactions by hash: their sender and block."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select

from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.tables.tables import chain_tx_table


class _SenderAndBlock(NamedTuple):
    sender: str
    block_number: int | None


_BY_HASH = Statement(
    select(chain_tx_table.c.sender, chain_tx_table.c.block_number).where(
        chain_tx_table.c.chain_id == param("chain_id"), chain_tx_table.c.hash == param("hash_")
    ),
    _SenderAndBlock,
)


@operation
def find_sender_and_block(chain_id: str, tx_hash: str) -> Op[tuple[str, int | None] | None]:
    """Return the sender and block of a transaction by its first hash; None if it is not ours."""
    return (yield from _BY_HASH.first(chain_id=chain_id, hash_=tx_hash))
