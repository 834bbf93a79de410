"""Requests that must not be done twice: the key is claimed together with the work itself.

There is no state "in progress": the claim, the work and the answer are one transaction, so that of
two equal requests one waits for the other, in the writer's queue or for the key's row, and then
replays it. Work that fails takes its claim back with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import delete, select, text, update

from florin_server.domain.errors import Code, FlorinError
from florin_server.store.engine.query import Op, Operation, Statement, T, insert, operation, param
from florin_server.store.tables.payments import LAPSES
from florin_server.store.tables.tables import idempotency


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that is about to be used.

    `scope` is partner, merchant and mode; `ttl_us` None keeps the key for ever.
    """

    scope: str
    key: str
    fingerprint: bytes
    now_us: int
    ttl_us: int | None


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer that an equal request got."""

    body: bytes


_KEY = (idempotency.c.scope == param("scope_"), idempotency.c.key == param("key_"))
_CLAIM = Statement(insert(idempotency).on_conflict_do_nothing().returning(idempotency.c.key))
_ANSWER = Statement(update(idempotency).where(*_KEY).values(body=param("answer")))
_FIND = Statement(
    select(idempotency.c.fingerprint, idempotency.c.body, idempotency.c.expires_at_us).where(*_KEY)
)
# locked, so that of several who find a lapsed key one takes it over
_TAKEN = Statement(
    select(idempotency.c.fingerprint, idempotency.c.body, idempotency.c.expires_at_us)
    .where(*_KEY)
    .with_for_update()
)
_FORGET = Statement(delete(idempotency).where(*_KEY))
_FORGET_LAPSED = Statement(
    delete(idempotency).where(*_KEY, idempotency.c.expires_at_us <= param("now_us"))
)
_LAPSED = Statement(
    select(idempotency.c.scope, idempotency.c.key)
    .where(text(LAPSES), idempotency.c.expires_at_us <= param("now_us"))
    .order_by(idempotency.c.expires_at_us)
    .limit(param("limit"))
)


@operation
def once(c: Claim | None, work: Operation[T], answer: Callable[[T], bytes]) -> Op[T | Replay]:
    """Does the work and stores its answer under the key, or tells the answer that was stored.

    FlorinError(idempotency_conflict) if the key was used for another request. Without a claim the
    work is just done.
    """
    if c is None:
        return (yield from work)
    if (replay := (yield from _claim(c))) is not None:
        return replay
    result = yield from work
    yield _ANSWER(scope_=c.scope, key_=c.key, answer=answer(result))
    return result


@operation
def find(scope: str, key: str, now_us: int) -> Op[bytes | None]:
    """The fingerprint of the request that a key stands for; None if it may be used."""
    rows = yield _FIND(scope_=scope, key_=key)
    if not rows or (rows[0][2] is not None and rows[0][2] <= now_us):
        return None
    fingerprint: bytes = rows[0][0]
    return fingerprint


@operation
def guard(c: Claim) -> Op[None]:
    """Binds a key to a request whose answers are not stored."""
    yield from _claim(c)


def _claim(c: Claim) -> Op[Replay | None]:
    """Takes a key, or tells the answer of whoever took it."""
    entry = _CLAIM(
        scope=c.scope,
        key=c.key,
        fingerprint=c.fingerprint,
        body=b"",
        created_at_us=c.now_us,
        expires_at_us=None if c.ttl_us is None else c.now_us + c.ttl_us,
    )
    while not (yield entry):
        for fingerprint, body, expires_at_us in (yield _TAKEN(scope_=c.scope, key_=c.key)):
            if expires_at_us is None or expires_at_us > c.now_us:
                if fingerprint != c.fingerprint:
                    raise FlorinError(
                        Code.IDEMPOTENCY_CONFLICT, details={"reason": "different_body"}
                    )
                return Replay(body)
            yield _FORGET(scope_=c.scope, key_=c.key)
    return None


@operation
def forget_lapsed(now_us: int, limit: int) -> Op[int]:
    """Deletes keys whose time is over, the oldest first, and tells how many."""
    lapsed = yield _LAPSED(now_us=now_us, limit=limit)
    if lapsed:
        # one that was used again meanwhile is not lapsed any more
        keys = [{"scope_": scope, "key_": key, "now_us": now_us} for scope, key in sorted(lapsed)]
        yield _FORGET_LAPSED.many(keys)
    return len(lapsed)
