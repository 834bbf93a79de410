"""Endpoints and what their messages are signed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Text, delete, func, null, or_, select, update

from florin_server.domain.sealed import Sealed
from florin_server.domain.webhooks.endpoint import Attempt, Endpoint, EndpointState
from florin_server.store.engine.query import Op, Statement, columns, insert, operation, param
from florin_server.store.tables.tables import (
    webhook_attempt,
    webhook_delivery,
    webhook_endpoint,
    webhook_secret,
)

_COLUMNS = columns(webhook_endpoint, Endpoint)
_end, _secret = webhook_endpoint.c, webhook_secret.c
_OWN = (
    _end.id == param("id_"),
    _end.partner_id == param("partner"),
    _end.live == param("is_live"),
)
_ADD = Statement(
    insert(webhook_endpoint)
    .on_conflict_do_nothing(index_elements=["owner", "live", "url"])
    .returning(_end.id)
)
_AT = Statement(
    select(_end.id).where(
        _end.owner == param("of"), _end.live == param("is_live"), _end.url == param("address")
    )
)
_COUNT = Statement(select(func.count()).where(_end.owner == param("of")))
_ONE = Statement(select(*_COLUMNS).where(*_OWN))
_ANYBODYS = Statement(select(*_COLUMNS).where(_end.id == param("id_")))
_LOCK = Statement(select(*_COLUMNS).where(*_OWN).with_for_update())
_LISTED = Statement(
    select(*_COLUMNS)
    .where(
        or_(param("of_partner", Text).is_(None), _end.partner_id == param("of_partner", Text)),
        or_(param("of_merchant", Text).is_(None), _end.merchant_id == param("of_merchant", Text)),
        _end.id > param("after"),
        or_(_end.live == param("is_live"), _end.live == param("or_live")),
    )
    .order_by(_end.id)
    .limit(param("limit"))
)
_CHANGE = Statement(
    update(webhook_endpoint)
    .where(_end.id == param("id_"))
    .values(url=param("address"), events=param("wanted"), description=param("about"))
)
_PAUSE = Statement(
    update(webhook_endpoint)
    .where(_end.id == param("id_"))
    .values(state=EndpointState.PAUSED, paused_reason=param("why"))
)
_RESUME = Statement(
    update(webhook_endpoint)
    .where(_end.id == param("id_"))
    .values(
        state=EndpointState.ACTIVE,
        paused_reason=null(),
        failures=0,
        failing_since_us=null(),
        retry_at_us=0,
    )
)
# what was given up while it was paused is tried again, too
_WAKE = Statement(
    update(webhook_delivery)
    .where(webhook_delivery.c.endpoint_id == param("id_"))
    .values(next_at_us=param("now_us"), since_us=param("now_us"), attempts=0)
)
_FORGET = tuple(
    Statement(delete(table).where(table.c[column] == param("id_")))
    for table, column in (
        (webhook_delivery, "endpoint_id"),
        (webhook_attempt, "endpoint_id"),
        (webhook_secret, "endpoint_id"),
        (webhook_endpoint, "id"),
    )
)
_PUT_SECRET = Statement(insert(webhook_secret))
_SECRETS = Statement(
    select(webhook_secret)
    .where(
        _secret.endpoint_id == param("endpoint_id"),
        or_(_secret.expires_at_us.is_(None), _secret.expires_at_us > param("now_us")),
    )
    .order_by(_secret.n.desc())
)
_END_SECRETS = Statement(
    update(webhook_secret)
    .where(
        _secret.endpoint_id == param("id_"),
        or_(_secret.expires_at_us.is_(None), _secret.expires_at_us > param("until")),
    )
    .values(expires_at_us=param("until"))
)
_DROP_SECRETS = Statement(
    delete(webhook_secret).where(
        _secret.endpoint_id == param("id_"),
        or_(_secret.n <= param("old"), _secret.expires_at_us <= param("now_us")),
    )
)
_NEWEST_SECRET = Statement(
    select(func.coalesce(func.max(_secret.n), 0)).where(_secret.endpoint_id == param("id_"))
)
_ATTEMPTS = Statement(
    select(*columns(webhook_attempt, Attempt))
    .where(
        webhook_attempt.c.endpoint_id == param("id_"),
        or_(param("of", Text).is_(None), webhook_attempt.c.payment_id == param("of", Text)),
    )
    .order_by(webhook_attempt.c.n.desc())
    .limit(param("limit"))
)
# messages are signed with so many secrets at most, however often they are rotated
_SECRETS_MAX = 3


class Secret(NamedTuple):
    """What messages are signed with, sealed; used until `expires_at_us`, or for good if None."""

    n: int
    sealed: Sealed
    public_key: str
    expires_at_us: int | None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose endpoints are meant, and of which mode."""

    partner_id: str
    live: bool


@operation
def add(new: Endpoint, first: Secret, limit: int) -> Op[str | None]:
    """Stores an endpoint; answers the id of the one that its owner has at the URL, if there is one.

    OverflowError if the owner has as many as it may.
    """
    asked = {"of": new.owner, "is_live": new.live, "address": new.url}
    if rows := (yield _AT(**asked)):
        return str(rows[0][0])
    ((count,),) = yield _COUNT(of=new.owner)
    if count >= limit:
        raise OverflowError
    if not (yield _ADD.of(new)):
        # somebody else was faster
        return str((yield _AT(**asked))[0][0])
    yield from _put(new.id, first)
    return None


@operation
def one(owner: Owner, endpoint_id: str) -> Op[Endpoint | None]:
    """An endpoint of a partner."""
    rows = yield _ONE(id_=endpoint_id, partner=owner.partner_id, is_live=owner.live)
    return Endpoint(*rows[0]) if rows else None


@operation
def anybodys(endpoint_id: str) -> Op[Endpoint | None]:
    """An endpoint, whoever has it."""
    rows = yield _ANYBODYS(id_=endpoint_id)
    return Endpoint(*rows[0]) if rows else None


@operation
def locked(owner: Owner, endpoint_id: str) -> Op[Endpoint | None]:
    """Part of an operation: the same, which nobody else changes until it ends."""
    rows = yield _LOCK(id_=endpoint_id, partner=owner.partner_id, is_live=owner.live)
    return Endpoint(*rows[0]) if rows else None


@operation
def listed(
    partner_id: str | None, merchant_id: str | None, live: bool | None, after: str, limit: int
) -> Op[list[Endpoint]]:
    """Endpoints by id, after one: all of them, or a partner's, a merchant's, those of a mode."""
    rows = yield _LISTED(
        of_partner=partner_id,
        of_merchant=merchant_id,
        after=after,
        is_live=live is not False,
        or_live=live is True,
        limit=limit,
    )
    return [Endpoint(*row) for row in rows]


@operation
def change(endpoint_id: str, url: str, events: frozenset[str], description: str) -> Op[None]:
    """Part of an operation: changes where an endpoint is and what it hears."""
    yield _CHANGE(id_=endpoint_id, address=url, wanted=events, about=description)


@operation
def taken(owner: str, live: bool, url: str) -> Op[str | None]:
    """The endpoint that an owner has at a URL."""
    rows = yield _AT(of=owner, is_live=live, address=url)
    return rows[0][0] if rows else None


@operation
def pause(endpoint_id: str, reason: str) -> Op[None]:
    """Part of an operation: nothing is told until it is resumed."""
    yield _PAUSE(id_=endpoint_id, why=reason)


@operation
def resume(endpoint_id: str, now_us: int) -> Op[None]:
    """Part of an operation: everything that waits is told from now on."""
    yield _RESUME(id_=endpoint_id)
    yield _WAKE(id_=endpoint_id, now_us=now_us)


@operation
def forget(endpoint_id: str) -> Op[None]:
    """Part of an operation: nothing is left of an endpoint."""
    for statement in _FORGET:
        yield statement(id_=endpoint_id)


@operation
def rotate(endpoint_id: str, new: Secret, now_us: int, until_us: int) -> Op[None]:
    """Part of an operation: signs with a new secret, and until a time with those before it."""
    yield _END_SECRETS(id_=endpoint_id, until=until_us)
    yield _DROP_SECRETS(id_=endpoint_id, old=new.n - _SECRETS_MAX, now_us=now_us)
    yield from _put(endpoint_id, new)


@operation
def next_secret(endpoint_id: str) -> Op[int]:
    """The number of an endpoint's next secret."""
    ((newest,),) = yield _NEWEST_SECRET(id_=endpoint_id)
    return int(newest) + 1


@operation
def secrets(endpoint_id: str, now_us: int) -> Op[list[Secret]]:
    """What an endpoint's messages are signed with, the newest first."""
    rows = yield _SECRETS(endpoint_id=endpoint_id, now_us=now_us)
    return [
        Secret(n, Sealed(key_id, nonce, ciphertext), public_key, expires_at_us)
        for _, n, key_id, nonce, ciphertext, public_key, expires_at_us in rows
    ]


@operation
def attempts(endpoint_id: str, payment_id: str | None, limit: int) -> Op[Sequence[Attempt]]:
    """The last attempts, the newest first: all that are kept, or those about one payment."""
    return [Attempt(*row) for row in (yield _ATTEMPTS(id_=endpoint_id, of=payment_id, limit=limit))]


def _put(endpoint_id: str, secret: Secret) -> Op[None]:
    yield _PUT_SECRET(
        endpoint_id=endpoint_id,
        n=secret.n,
        key_id=secret.sealed.key_id,
        nonce=secret.sealed.nonce,
        ciphertext=secret.sealed.ciphertext,
        public_key=secret.public_key,
        expires_at_us=secret.expires_at_us,
    )
