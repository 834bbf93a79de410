"""The keys that sign receipts; the newest has the highest number."""

from __future__ import annotations

from sqlalchemy import select, update

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param
from florin_server.db.tables.tables import receipt_key_table
from florin_server.domain.cipher import Ciphertext
from florin_server.domain.receipts.keys import ReceiptKey

_SELECT = select(
    receipt_key_table.c.n,
    receipt_key_table.c.id,
    receipt_key_table.c.public,
    receipt_key_table.c.seal_id.label("key_id"),
    receipt_key_table.c.nonce,
    receipt_key_table.c.ciphertext,
    receipt_key_table.c.created_at_us,
    receipt_key_table.c.revoked_at_us,
).order_by(receipt_key_table.c.n)
_ALL = Statement(_SELECT, ReceiptKey, encrypted_seed=Ciphertext)
_LOCK = Statement(_SELECT.with_for_update(), ReceiptKey, encrypted_seed=Ciphertext)
_PUT = Command(insert(receipt_key_table).on_conflict_do_nothing())
_REVOKE = Command(
    update(receipt_key_table)
    .where(receipt_key_table.c.id == param("key_id"), receipt_key_table.c.revoked_at_us.is_(None))
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
