"""The keys that sign receipts; the newest has the highest number."""

from __future__ import annotations

from sqlalchemy import select, update

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param
from florin_server.db.tables.tables import receipt_key
from florin_server.domain.cipher import Ciphertext
from florin_server.domain.receipts.keys import ReceiptKey

_SELECT = select(
    receipt_key.c.n,
    receipt_key.c.id,
    receipt_key.c.public,
    receipt_key.c.seal_id.label("key_id"),
    receipt_key.c.nonce,
    receipt_key.c.ciphertext,
    receipt_key.c.created_at_us,
    receipt_key.c.revoked_at_us,
).order_by(receipt_key.c.n)
_ALL = Statement(_SELECT, ReceiptKey, encrypted_seed=Ciphertext)
_LOCK = Statement(_SELECT.with_for_update(), ReceiptKey, encrypted_seed=Ciphertext)
_PUT = Command(insert(receipt_key).on_conflict_do_nothing())
_REVOKE = Command(
    update(receipt_key)
    .where(receipt_key.c.id == param("key_id"), receipt_key.c.revoked_at_us.is_(None))
    .values(revoked_at_us=param("now_us"))
)


@operation
def list_keys() -> Op[list[ReceiptKey]]:
    """Return all keys that ever existed, the oldest first."""
    return (yield from _ALL.all())


@operation
def lock() -> Op[list[ReceiptKey]]:
    """Return all keys, locked until the surrounding operation ends."""
    return (yield from _LOCK.all())


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
