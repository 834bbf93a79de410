"""Requests that must not be done twice: the key is claimed together with the work itself.

There is no state "in progress": the claim, the work and the answer are one transaction, so that of
two equal requests one waits for the other in the writer's queue and then replays it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select, text

from florin_server.domain.errors import Code, FlorinError
from florin_server.store.query import Op, Statement, insert, param
from florin_server.store.tables import LAPSES, idempotency


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that is about to be used, and the answer to keep under it.

    `scope` is partner, merchant and mode; `ttl_us` None keeps the key for ever.
    """

    scope: str
    key: str
    fingerprint: bytes
    body: bytes
    http_status: int
    now_us: int
    ttl_us: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer that an equal request got."""

    body: bytes
    http_status: int


_KEY = (idempotency.c.scope == param("scope"), idempotency.c.key == param("key"))
_CLAIM = Statement(insert(idempotency).on_conflict_do_nothing().returning(idempotency.c.key))
_FIND = Statement(
    select(
        idempotency.c.fingerprint,
        idempotency.c.body,
        idempotency.c.http_status,
        idempotency.c.expires_at_us,
    ).where(*_KEY)
)
_FORGET = Statement(delete(idempotency).where(*_KEY))
_LAPSED = Statement(
    select(idempotency.c.scope, idempotency.c.key)
    .where(text(LAPSES), idempotency.c.expires_at_us <= param("now_us"))
    .order_by(idempotency.c.expires_at_us)
    .limit(param("limit"))
)


def claim(c: Claim) -> Op[Replay | None]:
    """Part of an operation: takes the key for it, or tells the answer of the one that did.

    FlorinError(idempotency_conflict) if the key was used for another request.
    """
    entry = _CLAIM(
        scope=c.scope,
        key=c.key,
        fingerprint=c.fingerprint,
        body=c.body,
        http_status=c.http_status,
        created_at_us=c.now_us,
        expires_at_us=None if c.ttl_us is None else c.now_us + c.ttl_us,
    )
    if (yield entry):
        return None
    ((fingerprint, body, http_status, expires_at_us),) = yield _FIND(scope=c.scope, key=c.key)
    if expires_at_us is not None and expires_at_us <= c.now_us:
        yield _FORGET(scope=c.scope, key=c.key)
        yield entry
        return None
    if fingerprint != c.fingerprint:
        raise FlorinError(Code.IDEMPOTENCY_CONFLICT, details={"reason": "different_body"})
    return Replay(body, http_status)


def forget_lapsed(now_us: int, limit: int) -> Op[int]:
    """Deletes keys whose time is over, the oldest first, and tells how many."""
    lapsed = yield _LAPSED(now_us=now_us, limit=limit)
    if lapsed:
        yield _FORGET.many([{"scope": scope, "key": key} for scope, key in lapsed])
    return len(lapsed)
