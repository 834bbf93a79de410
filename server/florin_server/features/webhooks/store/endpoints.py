"""Endpoints and the keys that sign their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Text, delete, func, null, or_, select, update

from florin_server.db.engine.query import Command, Op, Statement, columns, insert, operation, param
from florin_server.db.tables.tables import (
    webhook_attempt_table,
    webhook_delivery_table,
    webhook_endpoint_table,
    webhook_hour_table,
    webhook_secret_table,
)
from florin_server.domain.cipher import Ciphertext
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookAttempt, WebhookEndpoint

_COLUMNS = columns(webhook_endpoint_table, WebhookEndpoint)
_endpoint, _secret = webhook_endpoint_table.c, webhook_secret_table.c
_OWN = (
    _endpoint.id == param("id_"),
    _endpoint.partner_id == param("partner"),
    _endpoint.live == param("is_live"),
)


class SigningSecret(NamedTuple):
    """An encrypted signing key, used until `expires_at_us`, or without limit if None."""

    n: int
    sealed: Ciphertext
    public_key: str
    expires_at_us: int | None


_ADD = Statement(
    insert(webhook_endpoint_table)
    .on_conflict_do_nothing(index_elements=["owner", "live", "url"])
    .returning(_endpoint.id),
    str,
)
_AT = Statement(
    select(_endpoint.id).where(
        _endpoint.owner == param("of"),
        _endpoint.live == param("is_live"),
        _endpoint.url == param("address"),
    ),
    str,
)
_COUNT = Statement(select(func.count()).where(_endpoint.owner == param("of")), int)
_FAILING = (
    select(_endpoint.id)
    .where(
        _endpoint.partner_id == param("of_partner"),
        _endpoint.live == param("is_live"),
        or_(_endpoint.failures > 0, _endpoint.state == EndpointState.PAUSED),
    )
    .limit(param("limit"))
)
_COUNT_FAILING = Statement(select(func.count()).select_from(_FAILING.subquery("limited")), int)
_PAUSED = select(_endpoint.id).where(_endpoint.state == EndpointState.PAUSED).limit(param("limit"))
_COUNT_PAUSED = Statement(select(func.count()).select_from(_PAUSED.subquery("limited")), int)
_FIND = Statement(select(*_COLUMNS).where(*_OWN), WebhookEndpoint)
_FIND_BY_ID = Statement(select(*_COLUMNS).where(_endpoint.id == param("id_")), WebhookEndpoint)
_LOCK = Statement(select(*_COLUMNS).where(*_OWN).with_for_update(), WebhookEndpoint)
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
    .limit(param("limit")),
    WebhookEndpoint,
)
_CHANGE = Command(
    update(webhook_endpoint_table)
    .where(_endpoint.id == param("id_"))
    .values(url=param("address"), events=param("event_types"), description=param("about"))
)
_PAUSE = Command(
    update(webhook_endpoint_table)
    .where(_endpoint.id == param("id_"))
    .values(state=EndpointState.PAUSED, paused_reason=param("why"))
)
_RESUME = Command(
    update(webhook_endpoint_table)
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
_WAKE = Command(
    update(webhook_delivery_table)
    .where(webhook_delivery_table.c.endpoint_id == param("id_"))
    .values(next_at_us=param("now_us"), since_us=param("now_us"), attempts=0)
)
_FORGET = tuple(
    Command(delete(table).where(table.c[column] == param("id_")))
    for table, column in (
        (webhook_delivery_table, "endpoint_id"),
        (webhook_attempt_table, "endpoint_id"),
        (webhook_secret_table, "endpoint_id"),
        (webhook_hour_table, "endpoint_id"),
        (webhook_endpoint_table, "id"),
    )
)
_PUT_SECRET = Command(insert(webhook_secret_table))
_SECRETS = Statement(
    select(
        _secret.n,
        _secret.key_id,
        _secret.nonce,
        _secret.ciphertext,
        _secret.public_key,
        _secret.expires_at_us,
    )
    .where(
        _secret.endpoint_id == param("endpoint_id"),
        or_(_secret.expires_at_us.is_(None), _secret.expires_at_us > param("now_us")),
    )
    .order_by(_secret.n.desc()),
    SigningSecret,
    sealed=Ciphertext,
)
_END_SECRETS = Command(
    update(webhook_secret_table)
    .where(
        _secret.endpoint_id == param("id_"),
        or_(_secret.expires_at_us.is_(None), _secret.expires_at_us > param("until")),
    )
    .values(expires_at_us=param("until"))
)
_DROP_SECRETS = Command(
    delete(webhook_secret_table).where(
        _secret.endpoint_id == param("id_"),
        or_(_secret.n <= param("old"), _secret.expires_at_us <= param("now_us")),
    )
)
_NEWEST_SECRET = Statement(
    select(func.coalesce(func.max(_secret.n), 0)).where(_secret.endpoint_id == param("id_")), int
)
_ATTEMPTS = Statement(
    select(*columns(webhook_attempt_table, WebhookAttempt))
    .where(
        webhook_attempt_table.c.endpoint_id == param("id_"),
        or_(param("of", Text).is_(None), webhook_attempt_table.c.payment_id == param("of", Text)),
    )
    .order_by(webhook_attempt_table.c.n.desc())
    .limit(param("limit")),
    WebhookAttempt,
)
# messages are signed with this many secrets at most, even after many rotations
_SECRETS_MAX = 3


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
    if (existing_id := (yield from _AT.first(**params))) is not None:
        return existing_id
    count = yield from _COUNT.single(of=endpoint.owner)
    if count >= limit:
        raise OverflowError
    if not (yield from _ADD.any(endpoint)):
        # another caller was faster
        return (yield from _AT.single(**params))
    yield from _put_secret(endpoint.id, first)
    return None


@operation
def find(owner: EndpointOwner, endpoint_id: str) -> Op[WebhookEndpoint | None]:
    """Return a partner's endpoint; None if it does not exist."""
    return (yield from _FIND.first(id_=endpoint_id, partner=owner.partner_id, is_live=owner.live))


@operation
def find_by_id(endpoint_id: str) -> Op[WebhookEndpoint | None]:
    """Return an endpoint of any owner; None if it does not exist."""
    return (yield from _FIND_BY_ID.first(id_=endpoint_id))


@operation
def lock(owner: EndpointOwner, endpoint_id: str) -> Op[WebhookEndpoint | None]:
    """Return a partner's endpoint, locked until the surrounding operation ends."""
    return (yield from _LOCK.first(id_=endpoint_id, partner=owner.partner_id, is_live=owner.live))


@operation
def list_endpoints(
    partner_id: str | None, merchant_id: str | None, live: bool | None, after: str, limit: int
) -> Op[list[WebhookEndpoint]]:
    """Return endpoints after an id: all, or those of a partner, a merchant, a mode."""
    return (
        yield from _LIST.all(
            of_partner=partner_id,
            of_merchant=merchant_id,
            after=after,
            is_live=live is not False,
            or_live=live is True,
            limit=limit,
        )
    )


@operation
def count_failing(partner_id: str, *, live: bool, limit: int) -> Op[int]:
    """Return how many of a partner's endpoints fail or are paused, at most `limit`."""
    return (yield from _COUNT_FAILING.single(of_partner=partner_id, is_live=live, limit=limit))


@operation
def count_paused(limit: int) -> Op[int]:
    """Return how many endpoints are paused, at most `limit`."""
    return (yield from _COUNT_PAUSED.single(limit=limit))


@operation
def change(endpoint_id: str, url: str, events: frozenset[str], description: str) -> Op[None]:
    """Change an endpoint's URL, event types and description; part of an operation."""
    yield _CHANGE(id_=endpoint_id, address=url, event_types=events, about=description)


@operation
def find_id_by_url(owner: str, live: bool, url: str) -> Op[str | None]:
    """Return the id of an owner's endpoint at a URL; None if it has none."""
    return (yield from _AT.first(of=owner, is_live=live, address=url))


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
    for command in _FORGET:
        yield command(id_=endpoint_id)


@operation
def rotate(endpoint_id: str, new: SigningSecret, now_us: int, until_us: int) -> Op[None]:
    """Sign with a new secret, and until a time also with earlier secrets; part of an operation."""
    yield _END_SECRETS(id_=endpoint_id, until=until_us)
    yield _DROP_SECRETS(id_=endpoint_id, old=new.n - _SECRETS_MAX, now_us=now_us)
    yield from _put_secret(endpoint_id, new)


@operation
def get_next_secret_number(endpoint_id: str) -> Op[int]:
    """Return the number of an endpoint's next secret."""
    newest = yield from _NEWEST_SECRET.single(id_=endpoint_id)
    return newest + 1


@operation
def list_secrets(endpoint_id: str, now_us: int) -> Op[list[SigningSecret]]:
    """Return the secrets that sign an endpoint's messages, the newest first."""
    return (yield from _SECRETS.all(endpoint_id=endpoint_id, now_us=now_us))


@operation
def list_attempts(
    endpoint_id: str, payment_id: str | None, limit: int
) -> Op[Sequence[WebhookAttempt]]:
    """Return the last attempts, the newest first: all stored, or those about one payment."""
    return (yield from _ATTEMPTS.all(id_=endpoint_id, of=payment_id, limit=limit))


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
