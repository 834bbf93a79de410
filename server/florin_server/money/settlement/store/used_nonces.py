"""The used nonces of our addresses, as far as the store knows."""

from __future__ import annotations

from sqlalchemy import select

from florin_server.db.engine.query import Command, Op, Statement, operation, param, upsert
from florin_server.db.tables.tables import relayer_table

_NOTE = Command(upsert(relayer_table, "chain_id", "sender"))
_NEXT = Statement(
    select(relayer_table.c.next_nonce).where(
        relayer_table.c.chain_id == param("chain_id"), relayer_table.c.sender == param("sender")
    ),
    int,
)


@operation
def find_next_nonce(chain_id: str, sender: str) -> Op[int | None]:
    """Return the nonce after the last recorded nonce; None if none was recorded."""
    return (yield from _NEXT.first(chain_id=chain_id, sender=sender))


@operation
def record_next_nonce(chain_id: str, sender: str, next_nonce_: int) -> Op[None]:
    """Record the next nonce of an address; part of an operation."""
    yield _NOTE(chain_id=chain_id, sender=sender, next_nonce=next_nonce_)
