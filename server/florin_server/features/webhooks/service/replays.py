"""Replays of events: those of one payment, or those since a time, page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain import cursor
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.ids import get_payment_id_floor
from florin_server.domain.refusals import payment_archived_error
from florin_server.domain.webhooks.endpoint import (
    ALL_TYPES,
    EndpointState,
    WebhookEndpoint,
    expand_types,
)
from florin_server.features.webhooks.service.endpoints import EndpointActor, check_types, get_owned
from florin_server.features.webhooks.store import replays
from florin_server.features.webhooks.store.replays import WAITING_MAX, ReplayPosition, ReplayRequest
from florin_server.money.archive.store import files as archive_files
from florin_server.money.payments.service.load import OwnedPayment
from florin_server.money.payments.store import payments
from florin_server.operations.service.audit_log import audited
from florin_server.settings.context import SettingsContext


class _Context(EventContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# how long a payment can continue after it can no longer be confirmed, and is found all the same
_RETENTION_S = 7 * 86_400
_FULL_RETRY_S = 5
_PAYMENT_COUNT = -1


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """Events since a time; of all types of the endpoint if none is named."""

    since_us: int
    types: frozenset[str]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayPage:
    """The number of payments whose events are replayed, and the start of the next page."""

    payment_count: int
    next_cursor: str | None


async def replay_payment(
    app: _Context, actor: EndpointActor, endpoint_id: str, payment_id: str, version: int
) -> int:
    """Replay a payment's events from a place on; return the newest place."""
    work = _replay_payment(actor, endpoint_id, payment_id, version, app.clock.now_us())
    change = _describe(actor, endpoint_id, {"payment": payment_id})
    newest = await app.store.write(audited(app, work, lambda _: change))
    app.notifier.publish(Topic.WEBHOOKS)
    return newest


async def replay_since(
    app: _Context, actor: EndpointActor, endpoint_id: str, spec: ReplaySpec
) -> ReplayPage:
    """Replay one page of events.

    ApiError(rate_limited) while the endpoint's queue is full.
    """
    check_types(spec.types)
    if ALL_TYPES in spec.types:
        spec = replace(spec, types=frozenset())
    first = spec.since_us // 1000 - 1000 * (app.settings.payment_ttl_max_s + _RETENTION_S)
    oldest = get_payment_id_floor(first)
    listed = f"replay/{endpoint_id}/{spec.since_us}/{' '.join(sorted(spec.types))}"
    after = ReplayPosition(oldest)
    if spec.cursor is not None:
        payment_id, later_us = cursor.decode_cursor(spec.cursor, listed, str, int)
        after = ReplayPosition(payment_id, None if later_us == _PAYMENT_COUNT else later_us)
    steps = _replay_since(actor, endpoint_id, spec, (oldest, after), app.clock.now_us())
    if spec.cursor is None:
        # one entry for all pages
        since = datetime.fromtimestamp(spec.since_us // 1_000_000, UTC)
        change = _describe(actor, endpoint_id, {"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"})
        steps = audited(app, steps, lambda _: change)
    count, following = await app.store.write(steps)
    app.notifier.publish(Topic.WEBHOOKS)
    if following is None:
        return ReplayPage(count, None)
    later_us = _PAYMENT_COUNT if following.later_us is None else following.later_us
    return ReplayPage(count, cursor.encode_cursor((following.payment_id, later_us), listed))


def _describe(actor: EndpointActor, endpoint_id: str, replayed: dict[str, object]) -> AuditChange:
    return AuditChange(
        AuditAction.WEBHOOK_REPLAYED,
        AuditObject.WEBHOOK,
        endpoint_id,
        actor.partner_id,
        actor.live,
        list_changes({}, replayed),
    )


@operation
def _replay_payment(
    actor: EndpointActor, endpoint_id: str, payment_id: str, version: int, now_us: int
) -> Op[int]:
    endpoint = yield from get_owned(actor, endpoint_id)
    payment = yield from payments.find(payment_id)
    if payment is None or not _is_of_actor(actor, endpoint, payment):
        # for another's payment too: an unknown one must not take more statements
        key = yield from archive_files.find_key(payment_id)
        if payment is None and key is not None and _is_of_actor(actor, endpoint, key):
            raise payment_archived_error()
        raise ApiError(ErrorCode.PAYMENT_NOT_FOUND)
    return (yield from replays.replay_payment(endpoint_id, payment_id, version, now_us))


def _is_of_actor(actor: EndpointActor, endpoint: WebhookEndpoint, payment: OwnedPayment) -> bool:
    if (payment.partner_id, payment.live) != (actor.partner_id, actor.live):
        return False
    return endpoint.merchant_id in {None, payment.merchant_id}


@operation
def _replay_since(
    actor: EndpointActor,
    endpoint_id: str,
    spec: ReplaySpec,
    bounds: tuple[str, ReplayPosition],
    now_us: int,
) -> Op[tuple[int, ReplayPosition | None]]:
    endpoint = yield from get_owned(actor, endpoint_id)
    subscribed_types = expand_types(endpoint.events)
    if unheard := sorted(spec.types - subscribed_types):
        raise validation_error("events", f"the endpoint is not subscribed to {unheard[0]}")
    if (yield from replays.is_full(endpoint_id)):
        if endpoint.state is EndpointState.PAUSED:
            raise ApiError(
                ErrorCode.INVALID_STATE, f"Endpoint {endpoint_id} is paused: resume it first"
            )
        raise ApiError(
            ErrorCode.RATE_LIMITED,
            f"{WAITING_MAX} payments are queued for endpoint {endpoint_id}: continue once it has "
            "received some",
            retry_after_s=_FULL_RETRY_S,
        )
    oldest, after = bounds
    types = spec.types or subscribed_types
    request = ReplayRequest(spec.since_us, types, oldest, is_filtered=types != subscribed_types)
    return (yield from replays.replay_page(endpoint, request, after, now_us))
