"""Requests that must run only once: the key is claimed in the work's own transaction.

No state "in progress" exists: the claim, the work and the response are one transaction. Of two
equal requests, one waits for the other, in the writer's queue or for the key's row, and then
replays its response. Failed work rolls back its claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    T,
    insert,
    operation,
    param,
)
from florin_server.db.tables.payments import EXPIRING_PREDICATE
from florin_server.db.tables.tables import idempotency_table
from florin_server.domain.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True)
class IdempotencyClaim:
    """A claim of a key.

    `scope` is partner, merchant and mode; `ttl_us` None keeps the key forever.
    """

    scope: str
    key: str
    fingerprint: bytes
    now_us: int
    ttl_us: int | None


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response that an equal request got."""

    body: bytes


_KEY = (idempotency_table.c.scope == param("scope_"), idempotency_table.c.key == param("key_"))


class _BoundKey(NamedTuple):
    fingerprint: bytes
    body: bytes
    expires_at_us: int | None


class _KeyName(NamedTuple):
    scope: str
    key: str


_CLAIM = Statement(
    insert(idempotency_table).on_conflict_do_nothing().returning(idempotency_table.c.key), str
)
_ANSWER = Command(update(idempotency_table).where(*_KEY).values(body=param("answer")))
_FIND = Statement(
    select(
        idempotency_table.c.fingerprint, idempotency_table.c.body, idempotency_table.c.expires_at_us
    ).where(*_KEY),
    _BoundKey,
)
# locked, so that only one of several claims takes over an expired key
_LOCK_KEY = Statement(
    select(
        idempotency_table.c.fingerprint, idempotency_table.c.body, idempotency_table.c.expires_at_us
    )
    .where(*_KEY)
    .with_for_update(),
    _BoundKey,
)
_FORGET = Command(delete(idempotency_table).where(*_KEY))
_FORGET_LAPSED = Command(
    delete(idempotency_table).where(*_KEY, idempotency_table.c.expires_at_us <= param("now_us"))
)
_LAPSED = Statement(
    select(idempotency_table.c.scope, idempotency_table.c.key)
    .where(text(EXPIRING_PREDICATE), idempotency_table.c.expires_at_us <= param("now_us"))
    .order_by(idempotency_table.c.expires_at_us)
    .limit(param("limit")),
    _KeyName,
)


@operation
def run_once(
    claim: IdempotencyClaim | None, work: Operation[T], encode_response: Callable[[T], bytes]
) -> Op[T | StoredResponse]:
    """Run the work and store its response under the key, or return the stored response.

    Raise ApiError(idempotency_conflict) if the key was used for another request. Without a claim
    the work simply runs.
    """
    if claim is None:
        return (yield from work)
    if (replay := (yield from _claim_key(claim))) is not None:
        return replay
    result = yield from work
    yield _ANSWER(scope_=claim.scope, key_=claim.key, answer=encode_response(result))
    return result


@operation
def find_fingerprint(scope: str, key: str, now_us: int) -> Op[bytes | None]:
    """Return the fingerprint of the request bound to a key; None if the key is free."""
    bound = yield from _FIND.first(scope_=scope, key_=key)
    if bound is None or (bound.expires_at_us is not None and bound.expires_at_us <= now_us):
        return None
    return bound.fingerprint


@operation
def bind(claim: IdempotencyClaim) -> Op[None]:
    """Bind a key to a request whose responses are not stored."""
    yield from _claim_key(claim)


def _claim_key(claim: IdempotencyClaim) -> Op[StoredResponse | None]:
    """Claim a key, or return the response of the request that claimed it."""
    entry = {
        "scope": claim.scope,
        "key": claim.key,
        "fingerprint": claim.fingerprint,
        "body": b"",
        "created_at_us": claim.now_us,
        "expires_at_us": None if claim.ttl_us is None else claim.now_us + claim.ttl_us,
    }
    while not (yield from _CLAIM.any(**entry)):
        for fingerprint, body, expires_at_us in (
            yield from _LOCK_KEY.all(scope_=claim.scope, key_=claim.key)
        ):
            if expires_at_us is None or expires_at_us > claim.now_us:
                if fingerprint != claim.fingerprint:
                    raise ApiError(
                        ErrorCode.IDEMPOTENCY_CONFLICT, details={"reason": "different_body"}
                    )
                return StoredResponse(body)
            yield _FORGET(scope_=claim.scope, key_=claim.key)
    return None


@operation
def forget_lapsed(now_us: int, limit: int) -> Op[int]:
    """Delete expired keys, the oldest first; return how many."""
    lapsed = yield from _LAPSED.all(now_us=now_us, limit=limit)
    if lapsed:
        # a key that was used again meanwhile is no longer expired
        keys = [{"scope_": scope, "key_": key, "now_us": now_us} for scope, key in sorted(lapsed)]
        yield _FORGET_LAPSED.bind_many(keys)
    return len(lapsed)
