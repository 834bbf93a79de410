"""Which nonces of our addresses are used, as far as the store knows."""

from __future__ import annotations

from sqlalchemy import select

from florin_server.store.engine.query import Op, Statement, operation, param, upsert
from florin_server.store.tables.tables import relayer

_NOTE = Statement(upsert(relayer, "chain_id", "sender"))
_NEXT = Statement(
    select(relayer.c.next_nonce).where(
        relayer.c.chain_id == param("chain_id"), relayer.c.sender == param("sender")
    )
)


@operation
def next_nonce(chain_id: str, sender: str) -> Op[int | None]:
    """Return the nonce after the last one that was written down; None if there was none."""
    rows = yield _NEXT(chain_id=chain_id, sender=sender)
    return rows[0][0] if rows else None


@operation
def note(chain_id: str, sender: str, next_nonce_: int) -> Op[None]:
    """Part of an operation: notes the next nonce of an address, whoever used those before it."""
    yield _NOTE(chain_id=chain_id, sender=sender, next_nonce=next_nonce_)
