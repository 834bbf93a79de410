"""The keys that sign receipts: created, published, succeeded by newer ones, revoked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from joserfc.jwk import OKPKey

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject
from florin_server.domain.cipher import Cipher, DecryptionError
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.receipts import keys
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.features.receipts import store as receipt_keys
from florin_server.operations.service.audit_log import audited, audited_change

_log = logging.getLogger(__name__)


async def ensure_key(app: StorageContext) -> None:
    """Create the first key, which is then published before anything is signed with it."""
    if not await app.store.read(receipt_keys.list_keys()):
        await app.store.write(receipt_keys.put(_create_key(app, 0)))


async def list_keys(app: StorageContext) -> Sequence[ReceiptKey]:
    """Return all keys, the oldest first."""
    return await app.store.read(receipt_keys.list_keys())


async def get_published_keys(app: StorageContext) -> dict[str, Any]:
    """Return the JWK set with which everyone can check receipts: all keys that are not revoked."""
    return {"keys": [key.jwk for key in await list_keys(app) if key.revoked_at_us is None]}


async def rotate(app: StorageContext) -> ReceiptKey:
    """Create a key that signs once it has been published for a while; the others stay valid.

    Of two keys created at the same time one stays, which both callers get. invalid_state if the
    maximum number of keys is published.
    """
    former = await list_keys(app)
    if sum(key.revoked_at_us is None for key in former) >= keys.PUBLISHED_KEYS_MAX:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"The limit of {keys.PUBLISHED_KEYS_MAX} receipt keys is reached: revoke one that is "
            "no longer needed",
        )
    key = _create_key(app, len(former))
    change = AuditChange(AuditAction.RECEIPT_KEY_ROTATED, AuditObject.RECEIPT_KEY, key.id)
    now = await app.store.write(
        audited(
            app,
            receipt_keys.put(key),
            lambda every: change if every[len(former)].id == key.id else None,
        )
    )
    _log.warning("receipts are signed with a new key from now on: %s", now[len(former)].id)
    return now[len(former)]


async def revoke(app: StorageContext, key_id: str) -> ReceiptKey:
    """Remove a key from the published ones for good; a second time changes nothing.

    invalid_params for an unknown key, invalid_state for the only one left.
    """
    change = AuditChange(AuditAction.RECEIPT_KEY_REVOKED, AuditObject.RECEIPT_KEY, key_id)
    key = await app.store.write(
        audited_change(
            app,
            receipt_keys.list_keys(),
            _revoke(key_id, app.clock.now_us()),
            lambda before, revoked: change if _is_valid(before, revoked.id) else None,
        )
    )
    _log.warning("receipts signed by %s are no longer valid", key_id)
    return key


def _is_valid(every: Sequence[ReceiptKey], key_id: str) -> bool:
    return any(key.id == key_id and key.revoked_at_us is None for key in every)


@operation
def _revoke(key_id: str, now_us: int) -> Op[ReceiptKey]:
    # two calls that revoke the last two keys, each the other one, wait for each other
    before = yield from receipt_keys.lock()
    named = [key for key in before if key.id == key_id]
    if not named:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Receipt key {key_id} not found")
    if named[0].revoked_at_us is not None:
        return named[0]
    if not any(key.revoked_at_us is None and key.id != key_id for key in before):
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"{key_id} is the only receipt key: rotate first, then revoke it",
        )
    return (yield from receipt_keys.revoke(key_id, now_us))[named[0].n]


@operation
def describe_signing_problem(cipher: Cipher, now_us: int) -> Op[str]:
    """Return why receipts cannot be signed now or by the next keys, and what helps; or nothing."""
    every = yield from receipt_keys.list_keys()
    signs = keys.find_signing_key(every, now_us)
    if signs is None:
        return ""
    usable_keys = [key for key in every if key.revoked_at_us is None and key.n >= signs.n]
    lost = [key.id for key in usable_keys if not _can_decrypt(cipher, key)]
    if not lost:
        return ""
    return (
        f"none of capture_keys in secrets.json opens {', '.join(lost)}: put the missing key back, "
        "before the last one, and restart Florin; if it is lost, run `florin receipt-keys "
        "rotate`, which makes a key that signs after ten minutes"
    )


def _can_decrypt(cipher: Cipher, key: ReceiptKey) -> bool:
    try:
        cipher.decrypt(key.encrypted_seed, keys.get_cipher_context(key.id))
    except DecryptionError:
        return False
    return True


def decrypt_seed(app: StorageContext, key: ReceiptKey) -> bytes:
    """Return the secret part of a key. ApiError(internal_error) if it cannot be decrypted."""
    try:
        return app.cipher.decrypt(key.encrypted_seed, keys.get_cipher_context(key.id))
    except DecryptionError:
        _log.error(
            "no key of capture_keys in secrets.json opens the receipt key %s: run `florin "
            "receipt-keys rotate`, then revoke it",
            key.id,
        )
        raise ApiError(ErrorCode.INTERNAL_ERROR) from None


def _create_key(app: StorageContext, n: int) -> ReceiptKey:
    seed, key, key_id = _generate_key(app)
    sealed = app.cipher.encrypt(seed, keys.get_cipher_context(key_id), app.randbytes)
    return ReceiptKey(n, key_id, keys.get_public_bytes(key), sealed, app.clock.now_us())


def _generate_key(app: StorageContext) -> tuple[bytes, OKPKey, str]:
    """Return secret bytes, their key and its id. People type ids: none begins like an option."""
    while True:
        seed = app.randbytes(keys.SEED_BYTES)
        key = keys.load_private_key(seed)
        if not (key_id := key.thumbprint()).startswith("-"):
            return seed, key, key_id
