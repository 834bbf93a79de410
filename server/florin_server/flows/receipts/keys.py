"""The keys that sign receipts: made, published, followed by newer ones, revoked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from joserfc.jwk import OKPKey

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.receipts import keys
from florin_server.domain.receipts.keys import ReceiptKey
from florin_server.domain.sealed import Lost, Seal
from florin_server.flows.app import Core
from florin_server.store.engine.query import Op, operation
from florin_server.store.receipts import receipt_keys as kept

_log = logging.getLogger(__name__)


async def ensure(app: Core) -> None:
    """Makes the first key, which is then published before anything is signed with it."""
    if not await app.store.read(kept.all_()):
        await app.store.write(kept.put(_new(app, 0)))


async def listed(app: Core) -> Sequence[ReceiptKey]:
    """All that ever were, the oldest first."""
    return await app.store.read(kept.all_())


async def published(app: Core) -> dict[str, Any]:
    """The JWK set by which everybody can check receipts: all keys that were not revoked."""
    return {"keys": [one.jwk for one in await listed(app) if one.revoked_at_us is None]}


async def rotate(app: Core) -> ReceiptKey:
    """Makes a key that signs once it has been published for a while; the others stay good.

    Of two that are made at the same time one stays, which both callers are told. invalid_state if
    as many are published as ever may be.
    """
    former = await listed(app)
    if sum(one.revoked_at_us is None for one in former) >= keys.PUBLISHED_MAX:
        raise FlorinError(
            Code.INVALID_STATE, f"There are {keys.PUBLISHED_MAX} keys: revoke what nobody needs"
        )
    now = await app.store.write(kept.put(_new(app, len(former))))
    _log.warning("receipts get another key: %s", now[len(former)].id)
    return now[len(former)]


async def revoke(app: Core, key_id: str) -> ReceiptKey:
    """Takes a key out of the published ones for good; a second time changes nothing.

    invalid_params for a key that is unknown, invalid_state for the only one that is left.
    """
    found = await app.store.write(_revoke(key_id, app.clock.now_us()))
    _log.warning("receipts that %s signed are good no more", key_id)
    return found


@operation
def _revoke(key_id: str, now_us: int) -> Op[ReceiptKey]:
    # two that take away the last two keys, each the other one, wait for each other
    before = yield from kept.lock()
    named = [one for one in before if one.id == key_id]
    if not named:
        raise FlorinError(Code.INVALID_PARAMS, "Receipt key not found")
    if named[0].revoked_at_us is not None:
        return named[0]
    if not any(one.revoked_at_us is None and one.id != key_id for one in before):
        raise FlorinError(
            Code.INVALID_STATE, "It is the only key: make another one first, by rotating"
        )
    return (yield from kept.revoke(key_id, now_us))[named[0].n]


@operation
def signing_problem(seal: Seal, now_us: int) -> Op[str]:
    """Why receipts cannot be signed, now or by the keys that follow, and what helps; or nothing."""
    every = yield from kept.all_()
    signs = keys.signer(every, now_us)
    if signs is None:
        return ""
    wanted = [one for one in every if one.revoked_at_us is None and one.n >= signs.n]
    lost = [one.id for one in wanted if not _opens(seal, one)]
    if not lost:
        return ""
    return (
        f"none of capture_keys in secrets.json opens {', '.join(lost)}: put the one that is "
        "missing back, before the last, and start Florin again; if it is lost, "
        "`florin receipt-keys rotate` makes a key that signs ten minutes later"
    )


def _opens(seal: Seal, key: ReceiptKey) -> bool:
    try:
        seal.open(key.sealed, keys.place(key.id))
    except Lost:
        return False
    return True


def seed_of(app: Core, key: ReceiptKey) -> bytes:
    """The secret part of a key. FlorinError(internal_error) if the installation cannot read it."""
    try:
        return app.seal.open(key.sealed, keys.place(key.id))
    except Lost:
        _log.error(
            "the receipt key %s is sealed by none of capture_keys in secrets.json: "
            "`florin receipt-keys rotate`, then revoke it",
            key.id,
        )
        raise FlorinError(Code.INTERNAL_ERROR) from None


def _new(app: Core, n: int) -> ReceiptKey:
    seed, key, key_id = _drawn(app)
    sealed = app.seal.close(seed, keys.place(key_id), app.randbytes)
    return ReceiptKey(n, key_id, keys.public_of(key), sealed, app.clock.now_us())


def _drawn(app: Core) -> tuple[bytes, OKPKey, str]:
    """Secret bytes, their key and its id. People type ids: none begins as an option does."""
    while True:
        seed = app.randbytes(keys.SEED_BYTES)
        key = keys.of_seed(seed)
        if not (key_id := key.thumbprint()).startswith("-"):
            return seed, key, key_id
