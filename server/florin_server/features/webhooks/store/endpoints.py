"""Endpoints and the keys that sign their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Text, delete, func, null, or_, select, update

from florin_server.db.engine.query import (
    Op,
    Statement,
    columns,
    insert,
    operation,
    param,
)
from florin_server.db.tables.tables import (
    webhook_attempt,
    webhook_delivery,
    webhook_endpoint,
    webhook_secret,
)
from florin_server.domain.sealed import Ciphertext
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookAttempt, WebhookEndpoint

_COLUMNS = columns(webhook_endpoint, WebhookEndpoint)
_endpoint, _secret = webhook_endpoint.c, webhook_secret.c
_OWN = (
    _endpoint.id == param("id_"),
    _endpoint.partner_id == param("partner"),
    _endpoint.live == param("is_live"),
)
_ADD = Statement(
    insert(webhook_endpoint)
    .on_conflict_do_nothing(index_elements=["owner", "live", "url"])
    .returning(_endpoint.id)
)
_AT = Statement(
    select(_endpoint.id).where(
        _endpoint.owner == param("of"),
        _endpoint.live == param("is_live"),
        _endpoint.url == param("address"),
    )
)
_COUNT = Statement(select(func.count()).where(_endpoint.owner == param("of")))
_FIND = Statement(select(*_COLUMNS).where(*_OWN))
_FIND_BY_ID = Statement(select(*_COLUMNS).where(_endpoint.id == param("id_")))
_LOCK = Statement(select(*_COLUMNS).where(*_OWN).with_for_update())
_LIST = Statement(
    select(*_COLUMNS)
    .where(
        or_(param("of_partner", Text).is_(None), _endpoint.partner_id == param("of_partner", Text)),
        or_(
            param("of_merchant", Text).is_(None),
            _endpoint.merchant_id == param("of_merchant", Text),
        ),
        _endpoint.id > param("after"),
        or_(_endpoint.live == param("is_live"), _endpoint.live == param("or_live")),
    )
    .order_by(_endpoint.id)
    .limit(param("limit"))
)
_CHANGE = Statement(
    update(webhook_endpoint)
    .where(_endpoint.id == param("id_"))
    .values(url=param("address"), events=param("event_types"), description=param("about"))
)
_PAUSE = Statement(
    update(webhook_endpoint)
    .where(_endpoint.id == param("id_"))
    .values(state=EndpointState.PAUSED, paused_reason=param("why"))
)
_RESUME = Statement(
    update(webhook_endpoint)
    .where(_endpoint.id == param("id_"))
    .values(
        state=EndpointState.ACTIVE,
        paused_reason=null(),
        failures=0,
        failing_since_us=null(),
        retry_at_us=0,
    )
)
# deliveries given up during the pause are tried again too
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
    select(*columns(webhook_attempt, WebhookAttempt))
    .where(
        webhook_attempt.c.endpoint_id == param("id_"),
        or_(param("of", Text).is_(None), webhook_attempt.c.payment_id == param("of", Text)),
    )
    .order_by(webhook_attempt.c.n.desc())
    .limit(param("limit"))
)
# messages are signed with this many secrets at most, even after many rotations
_SECRETS_MAX = 3


class SigningSecret(NamedTuple):
    """An encrypted signing key, used until `expires_at_us`, or without limit if None."""

    n: int
    sealed: Ciphertext
    public_key: str
    expires_at_us: int | None


@dataclass(frozen=True, slots=True)
class EndpointOwner:
    """The owner of endpoints, and their mode."""

    partner_id: str
    live: bool


@operation
def add(endpoint: WebhookEndpoint, first: SigningSecret, limit: int) -> Op[str | None]:
    """Store an endpoint; return the id of the owner's existing endpoint at the URL, if any.

    Raise OverflowError if the owner has reached its limit.
    """
    params = {"of": endpoint.owner, "is_live": endpoint.live, "address": endpoint.url}
    if rows := (yield _AT(**params)):
        return str(rows[0][0])
    ((count,),) = yield _COUNT(of=endpoint.owner)
    if count >= limit:
        raise OverflowError
    if not (yield _ADD.bind_object(endpoint)):
        # another caller was faster
        return str((yield _AT(**params))[0][0])
    yield from _put_secret(endpoint.id, first)
    return None


@operation
def find(owner: EndpointOwner, endpoint_id: str) -> Op[WebhookEndpoint | None]:
    """Return a partner's endpoint; None if it does not exist."""
    rows = yield _FIND(id_=endpoint_id, partner=owner.partner_id, is_live=owner.live)
    return WebhookEndpoint(*rows[0]) if rows else None


@operation
def find_by_id(endpoint_id: str) -> Op[WebhookEndpoint | None]:
    """Return an endpoint of any owner; None if it does not exist."""
    rows = yield _FIND_BY_ID(id_=endpoint_id)
    return WebhookEndpoint(*rows[0]) if rows else None


@operation
def lock(owner: EndpointOwner, endpoint_id: str) -> Op[WebhookEndpoint | None]:
    """Return a partner's endpoint, locked until the surrounding operation ends."""
    rows = yield _LOCK(id_=endpoint_id, partner=owner.partner_id, is_live=owner.live)
    return WebhookEndpoint(*rows[0]) if rows else None


@operation
def list_endpoints(
    partner_id: str | None, merchant_id: str | None, live: bool | None, after: str, limit: int
) -> Op[list[WebhookEndpoint]]:
    """Return endpoints after an id: all, or those of a partner, a merchant, a mode."""
    rows = yield _LIST(
        of_partner=partner_id,
        of_merchant=merchant_id,
        after=after,
        is_live=live is not False,
        or_live=live is True,
        limit=limit,
    )
    return [WebhookEndpoint(*row) for row in rows]


@operation
def change(endpoint_id: str, url: str, events: frozenset[str], description: str) -> Op[None]:
    """Change an endpoint's URL, event types and description; part of an operation."""
    yield _CHANGE(id_=endpoint_id, address=url, event_types=events, about=description)


@operation
def find_id_by_url(owner: str, live: bool, url: str) -> Op[str | None]:
    """Return the id of an owner's endpoint at a URL; None if it has none."""
    rows = yield _AT(of=owner, is_live=live, address=url)
    return rows[0][0] if rows else None


@operation
def pause(endpoint_id: str, reason: str) -> Op[None]:
    """Pause an endpoint: no delivery is tried until it is resumed. Part of an operation."""
    yield _PAUSE(id_=endpoint_id, why=reason)


@operation
def resume(endpoint_id: str, now_us: int) -> Op[None]:
    """Resume an endpoint: its queued deliveries are tried from now on. Part of an operation."""
    yield _RESUME(id_=endpoint_id)
    yield _WAKE(id_=endpoint_id, now_us=now_us)


@operation
def forget(endpoint_id: str) -> Op[None]:
    """Delete an endpoint with all its data; part of an operation."""
    for statement in _FORGET:
        yield statement(id_=endpoint_id)


@operation
def rotate(endpoint_id: str, new: SigningSecret, now_us: int, until_us: int) -> Op[None]:
    """Sign with a new secret, and until a time also with earlier secrets; part of an operation."""
    yield _END_SECRETS(id_=endpoint_id, until=until_us)
    yield _DROP_SECRETS(id_=endpoint_id, old=new.n - _SECRETS_MAX, now_us=now_us)
    yield from _put_secret(endpoint_id, new)


@operation
def get_next_secret_number(endpoint_id: str) -> Op[int]:
    """Return the number of an endpoint's next secret."""
    ((newest,),) = yield _NEWEST_SECRET(id_=endpoint_id)
    return int(newest) + 1


@operation
def list_secrets(endpoint_id: str, now_us: int) -> Op[list[SigningSecret]]:
    """Return the secrets that sign an endpoint's messages, the newest first."""
    rows = yield _SECRETS(endpoint_id=endpoint_id, now_us=now_us)
    return [
        SigningSecret(n, Ciphertext(key_id, nonce, ciphertext), public_key, expires_at_us)
        for _, n, key_id, nonce, ciphertext, public_key, expires_at_us in rows
    ]


@operation
def list_attempts(
    endpoint_id: str, payment_id: str | None, limit: int
) -> Op[Sequence[WebhookAttempt]]:
    """Return the last attempts, the newest first: all stored, or those about one payment."""
    return [
        WebhookAttempt(*row)
        for row in (yield _ATTEMPTS(id_=endpoint_id, of=payment_id, limit=limit))
    ]


def _put_secret(endpoint_id: str, secret: SigningSecret) -> Op[None]:
    yield _PUT_SECRET(
        endpoint_id=endpoint_id,
        n=secret.n,
        key_id=secret.sealed.key_id,
        nonce=secret.sealed.nonce,
        ciphertext=secret.sealed.ciphertext,
        public_key=secret.public_key,
        expires_at_us=secret.expires_at_us,
    )
