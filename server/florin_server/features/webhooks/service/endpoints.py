"""Endpoints: create, list, change, delete, and rotate secrets.

A secret is shown once, at its creation. It is stored encrypted, because it signs the deliveries.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from florin_server.accounts.store import credential_checks, merchants
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.account import CredentialStatus
from florin_server.domain.errors import ApiError, ErrorCode, GrpcStatus, validation_error
from florin_server.domain.ids import generate_short_id
from florin_server.domain.refusals import upgrade_unfinished
from florin_server.domain.urls import UrlError, canonicalize_url
from florin_server.domain.webhooks.endpoint import (
    ALL_TYPES,
    BODY_FORMAT,
    EVENT_TYPES,
    PAUSED_BY_OWNER,
    EndpointState,
    WebhookAttempt,
    WebhookEndpoint,
)
from florin_server.domain.webhooks.health import WebhookHealth
from florin_server.domain.webhooks.signing import WebhookKeys
from florin_server.features.webhooks.service.endpoint_changes import (
    describe_created,
    describe_deleted,
    describe_rotation,
    describe_update,
)
from florin_server.features.webhooks.store import endpoints, health
from florin_server.features.webhooks.store.endpoints import EndpointOwner, SigningSecret
from florin_server.money.outbox.store import older_releases
from florin_server.operations.service.audit_log import audited, audited_change
from florin_server.settings.context import SettingsContext


class _Context(EventContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


PAGE_SIZE = 100
_DAY_S = 86_400
OVERLAP_S, OVERLAP_MAX_S = _DAY_S, 7 * _DAY_S


@dataclass(frozen=True, slots=True)
class EndpointActor:
    """The caller: a partner in one mode, or the operator, who has no `credential_status`."""

    partner_id: str
    live: bool
    credential_status: CredentialStatus | None = None

    @property
    def owner(self) -> EndpointOwner:
        """Return the owner of the endpoints."""
        return EndpointOwner(self.partner_id, self.live)


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """The requested endpoint; None keeps the present value."""

    url: str | None = None
    events: frozenset[str] | None = None
    description: str | None = None
    paused: bool | None = None


@dataclass(frozen=True, slots=True)
class EndpointWithKeys:
    """An endpoint with what verifies its messages; the secret where it was just made."""

    endpoint: WebhookEndpoint
    public_keys: Sequence[str]
    secret: str = field(default="", repr=False)


async def find_operator_actor(app: StorageContext, endpoint_id: str) -> EndpointActor:
    """Return the operator, in the role of an endpoint's owner."""
    endpoint = await app.store.read(endpoints.find_by_id(endpoint_id))
    if endpoint is None:
        raise _not_found_error()
    return EndpointActor(endpoint.partner_id, endpoint.live)


async def get_partner_actor(app: StorageContext, partner_id: str, *, live: bool) -> EndpointActor:
    """Return the operator, as a partner."""
    partner = await app.store.read(merchants.find_partner(partner_id))
    if partner is None:
        raise ApiError(ErrorCode.PARTNER_NOT_FOUND)
    return EndpointActor(partner.id, live)


async def create(
    app: _Context, actor: EndpointActor, merchant_id: str | None, spec: EndpointSpec
) -> EndpointWithKeys:
    """Create an endpoint of the partner, or of one of its merchants."""
    spec = _normalize_spec(app, spec)
    url, events = spec.url or "", spec.events or frozenset()
    endpoint = WebhookEndpoint(
        id=generate_short_id("whe_", app.randbytes),
        partner_id=actor.partner_id,
        merchant_id=merchant_id,
        live=actor.live,
        url=url,
        events=events,
        description=spec.description or "",
        version=BODY_FORMAT,
        state=EndpointState.ACTIVE,
        paused_reason=None,
        created_at_us=app.clock.now_us(),
    )
    keys = WebhookKeys.generate(app.randbytes)
    first = _create_secret(app, endpoint.id, 1, keys)
    work = _create(actor, endpoint, first, app.settings.webhooks.endpoints_max)
    await app.store.write(audited(app, work, lambda _: describe_created(endpoint)))
    return EndpointWithKeys(endpoint, [first.public_key], keys.secret)


async def list_health(
    app: StorageContext, found_endpoints: Sequence[WebhookEndpoint]
) -> dict[str, WebhookHealth]:
    """Return the health of endpoints, by id."""
    return await app.store.read(health.list_health(found_endpoints, app.clock.now_us()))


async def list_endpoints(
    app: StorageContext,
    actor: EndpointActor | None,
    merchant_id: str | None,
    after_id: str = "",
    limit: int = PAGE_SIZE,
) -> list[WebhookEndpoint]:
    """Return endpoints by id, after one; the operator, who is None here, sees all of them."""
    if actor is None:
        return await app.store.read(
            endpoints.list_endpoints(None, merchant_id, None, after_id, limit)
        )
    return await app.store.read(
        endpoints.list_endpoints(actor.partner_id, merchant_id, actor.live, after_id, limit)
    )


async def get(app: StorageContext, actor: EndpointActor, endpoint_id: str) -> EndpointWithKeys:
    """Return one endpoint."""
    return await app.store.read(_get(actor, endpoint_id, app.clock.now_us()))


async def update(
    app: _Context, actor: EndpointActor, endpoint_id: str, spec: EndpointSpec
) -> EndpointWithKeys:
    """Change an endpoint: its URL, its events, whether it is paused."""
    spec = _normalize_spec(app, spec)
    endpoint_with_keys = await app.store.write(
        audited_change(
            app,
            endpoints.find(actor.owner, endpoint_id),
            _update(actor, endpoint_id, spec, app.clock.now_us()),
            lambda before, after: describe_update(before, after.endpoint) if before else None,
        )
    )
    app.notifier.publish(Topic.WEBHOOKS)
    return endpoint_with_keys


async def delete(app: StorageContext, actor: EndpointActor, endpoint_id: str) -> None:
    """Delete an endpoint and its queue; a second time it is unknown."""
    await app.store.write(
        audited_change(
            app,
            endpoints.find(actor.owner, endpoint_id),
            _delete(actor, endpoint_id),
            lambda before, _: describe_deleted(before) if before else None,
        )
    )


async def rotate_secret(
    app: _Context, actor: EndpointActor, endpoint_id: str, overlap_s: int | None
) -> EndpointWithKeys:
    """Rotate an endpoint's secret; the former ones also sign while they overlap."""
    keys = WebhookKeys.generate(app.randbytes)
    now_us = app.clock.now_us()
    until_us = now_us + (OVERLAP_S if overlap_s is None else overlap_s) * 1_000_000
    work = _rotate_secret(app, actor, endpoint_id, keys, (now_us, until_us))
    endpoint_with_keys = await app.store.write(
        audited(app, work, lambda rotated: describe_rotation(rotated.endpoint))
    )
    app.notifier.publish(Topic.WEBHOOKS)
    return EndpointWithKeys(
        endpoint_with_keys.endpoint, endpoint_with_keys.public_keys, keys.secret
    )


async def list_attempts(
    app: StorageContext,
    actor: EndpointActor,
    endpoint_id: str,
    payment_id: str | None,
    limit: int = PAGE_SIZE,
) -> Sequence[WebhookAttempt]:
    """Return an endpoint's last attempts, the newest first."""
    return await app.store.read(_list_attempts(actor, endpoint_id, payment_id, limit))


def get_cipher_context(endpoint_id: str, n: int) -> str:
    """Return the place that a secret is sealed for."""
    return f"webhook/{endpoint_id}/{n}"


def _create_secret(
    core: StorageContext, endpoint_id: str, n: int, keys: WebhookKeys
) -> SigningSecret:
    sealed = core.cipher.encrypt(
        keys.stored_bytes, get_cipher_context(endpoint_id, n), core.randbytes
    )
    return SigningSecret(n, sealed, keys.public_key, None)


def _normalize_spec(app: SettingsContext, spec: EndpointSpec) -> EndpointSpec:
    """Return the request with its URL in canonical form; ApiError with the reason."""
    check_types(spec.events or frozenset())
    if not spec.url:
        return spec
    try:
        # as the operator who lists networks has endpoints in them
        url = canonicalize_url(spec.url, allow_http=bool(app.settings.webhooks.networks))
    except UrlError as error:
        raise validation_error("url", str(error)) from error
    return replace(spec, url=url)


def check_types(events: Collection[str]) -> None:
    """Raise ApiError for what is neither a type of event nor `*`."""
    for event_type in sorted(events):
        if event_type not in (*EVENT_TYPES, ALL_TYPES):
            raise validation_error(
                "events", f"{event_type[:40]} is not one of {', '.join(EVENT_TYPES)}, *"
            )


def _not_found_error() -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PARAMS,
        "Webhook endpoint not found",
        details={"reason": "webhook_not_found"},
        http=404,
        grpc=GrpcStatus.NOT_FOUND,
    )


def _taken_error(endpoint_id: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_STATE,
        f"Endpoint {endpoint_id} has this URL already: if its secret is lost, rotate it",
        details={"reason": "webhook_url_taken"},
        http=409,
        grpc=GrpcStatus.ALREADY_EXISTS,
    )


@operation
def _require_actor(actor: EndpointActor, merchant_id: str | None) -> Op[None]:
    yield from credential_checks.require_active(actor.credential_status)
    if merchant_id is None:
        return
    if (yield from merchants.find_owned(merchant_id, actor.partner_id, live=actor.live)) is None:
        raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)


@operation
def get_owned(actor: EndpointActor, endpoint_id: str) -> Op[WebhookEndpoint]:
    """Return an endpoint of the caller, locked, as part of an operation."""
    yield from credential_checks.require_active(actor.credential_status)
    endpoint = yield from endpoints.lock(actor.owner, endpoint_id)
    if endpoint is None:
        raise _not_found_error()
    return endpoint


@operation
def _create(
    actor: EndpointActor, endpoint: WebhookEndpoint, secret: SigningSecret, limit: int
) -> Op[None]:
    yield from _require_actor(actor, endpoint.merchant_id)
    yield from _check_all_types(endpoint.events)
    try:
        existing = yield from endpoints.add(endpoint, secret, limit)
    except OverflowError:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"The limit of {limit} endpoints is reached: delete one first",
            details={"reason": "too_many_webhooks"},
        ) from None
    if existing is not None:
        raise _taken_error(existing)


@operation
def _get(actor: EndpointActor, endpoint_id: str, now_us: int) -> Op[EndpointWithKeys]:
    endpoint = yield from endpoints.find(actor.owner, endpoint_id)
    if endpoint is None:
        raise _not_found_error()
    secrets = yield from endpoints.list_secrets(endpoint_id, now_us)
    return EndpointWithKeys(endpoint, [secret.public_key for secret in secrets])


@operation
def _update(
    actor: EndpointActor, endpoint_id: str, spec: EndpointSpec, now_us: int
) -> Op[EndpointWithKeys]:
    endpoint = yield from get_owned(actor, endpoint_id)
    yield from _check_all_types(spec.events or ())
    url = endpoint.url if spec.url is None else spec.url
    if url != endpoint.url:
        taken = yield from endpoints.find_id_by_url(endpoint.owner, endpoint.live, url)
        if taken is not None:
            raise _taken_error(taken)
    yield from endpoints.change(
        endpoint_id,
        url,
        endpoint.events if spec.events is None else spec.events,
        endpoint.description if spec.description is None else spec.description,
    )
    if spec.paused:
        yield from endpoints.pause(endpoint_id, PAUSED_BY_OWNER)
    elif spec.paused is False:
        yield from endpoints.resume(endpoint_id, now_us)
    return (yield from _get(actor, endpoint_id, now_us))


def _check_all_types(events: Collection[str]) -> Op[None]:
    """Refuse ALL_TYPES while older processes may deliver, which take it for no type."""
    if ALL_TYPES in events and (yield from older_releases.is_held()):
        raise upgrade_unfinished()


@operation
def _delete(actor: EndpointActor, endpoint_id: str) -> Op[None]:
    yield from get_owned(actor, endpoint_id)
    yield from endpoints.forget(endpoint_id)


@operation
def _rotate_secret(
    app: StorageContext,
    actor: EndpointActor,
    endpoint_id: str,
    keys: WebhookKeys,
    overlap_us: tuple[int, int],
) -> Op[EndpointWithKeys]:
    yield from get_owned(actor, endpoint_id)
    now_us, until_us = overlap_us
    n = yield from endpoints.get_next_secret_number(endpoint_id)
    yield from endpoints.rotate(
        endpoint_id, _create_secret(app, endpoint_id, n, keys), now_us, until_us
    )
    return (yield from _get(actor, endpoint_id, now_us))


@operation
def _list_attempts(
    actor: EndpointActor, endpoint_id: str, payment_id: str | None, limit: int
) -> Op[Sequence[WebhookAttempt]]:
    if (yield from endpoints.find(actor.owner, endpoint_id)) is None:
        raise _not_found_error()
    return (yield from endpoints.list_attempts(endpoint_id, payment_id, limit))
