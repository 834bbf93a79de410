"""The keys that sign receipts; the newest has the highest number."""

from __future__ import annotations

from sqlalchemy import select, update

from florin_server.db.engine.query import (
    Op,
    Row,
    Statement,
    insert,
    operation,
    param,
)
from florin_server.db.tables.tables import receipt_key
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.sealed import Ciphertext

_ALL = Statement(select(receipt_key).order_by(receipt_key.c.n))
_LOCK = Statement(select(receipt_key).order_by(receipt_key.c.n).with_for_update())
_PUT = Statement(insert(receipt_key).on_conflict_do_nothing())
_REVOKE = Statement(
    update(receipt_key)
    .where(receipt_key.c.id == param("key_id"), receipt_key.c.revoked_at_us.is_(None))
    .values(revoked_at_us=param("now_us"))
)


@operation
def list_keys() -> Op[list[ReceiptKey]]:
    """Return all keys that ever existed, the oldest first."""
    return [_to_receipt_key(row) for row in (yield _ALL())]


@operation
def lock() -> Op[list[ReceiptKey]]:
    """Return all keys, locked until the surrounding operation ends."""
    return [_to_receipt_key(row) for row in (yield _LOCK())]


@operation
def put(key: ReceiptKey) -> Op[list[ReceiptKey]]:
    """Store a key and return all; of two with the same number the first stays."""
    yield _PUT(
        n=key.n,
        id=key.id,
        public=key.public,
        seal_id=key.encrypted_seed.key_id,
        nonce=key.encrypted_seed.nonce,
        ciphertext=key.encrypted_seed.ciphertext,
        created_at_us=key.created_at_us,
        revoked_at_us=key.revoked_at_us,
    )
    return (yield from list_keys())


@operation
def revoke(key_id: str, now_us: int) -> Op[list[ReceiptKey]]:
    """Revoke a key with all that it signed; return all keys. Part of an operation."""
    yield _REVOKE(key_id=key_id, now_us=now_us)
    return (yield from list_keys())


def _to_receipt_key(row: Row) -> ReceiptKey:
    n, key_id, public, seal_id, nonce, ciphertext, created_at_us, revoked_at_us = row
    encrypted_seed = Ciphertext(seal_id, nonce, ciphertext)
    return ReceiptKey(n, key_id, public, encrypted_seed, created_at_us, revoked_at_us)
