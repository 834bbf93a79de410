"""Endpoints without a URL are polled: their owner takes the queued events and reports the results.

So a machine that cannot be reached gets events, for example a developer's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.webhooks.endpoint import WebhookAttempt
from florin_server.features.webhooks.service.endpoints import EndpointActor, get_owned
from florin_server.features.webhooks.service.message import (
    EventEncoder,
    WebhookMessage,
    find_next_message,
)
from florin_server.features.webhooks.store import claims, deliveries
from florin_server.features.webhooks.store.claims import WebhookDeliveryClaim
from florin_server.features.webhooks.store.deliveries import DeliveryPolicy
from florin_server.money.outbox.store import events
from florin_server.money.payments.store import payments
from florin_server.settings.context import SettingsContext


class _Context(SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_LEASE_US = 60_000_000
_POLL_S = 0.25
_DAY_US = 86_400_000_000
_TOKEN = re.compile(r"(pay_[A-Za-z0-9_-]{1,60})\.([0-9]{1,9})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class TakenWebhook:
    """One event for a polling endpoint; the token names it in its receipt."""

    token: str
    message: WebhookMessage


@dataclass(frozen=True, slots=True)
class WebhookReceipt:
    """The result of one event: the HTTP status of the response, None without a response."""

    token: str
    status: int | None


async def take_events(
    app: _Context,
    actor: EndpointActor,
    endpoint_id: str,
    receipts: Sequence[WebhookReceipt],
    *,
    wait_ms: int,
    encode_event: EventEncoder,
) -> list[TakenWebhook]:
    """Store receipts, and return queued events, as soon as there are any."""
    for receipt in receipts:
        await _record_receipt(app, actor, endpoint_id, receipt)
    until_us = app.clock.steady_us() + wait_ms * 1000
    while not (webhooks := await _claim(app, actor, endpoint_id, encode_event)):
        left_us = until_us - app.clock.steady_us()
        if left_us <= 0:
            break
        await app.clock.sleep(min(_POLL_S, left_us / 1_000_000))
    return webhooks


async def _claim(
    app: _Context, actor: EndpointActor, endpoint_id: str, encode_event: EventEncoder
) -> list[TakenWebhook]:
    now_us = app.clock.now_us()
    claimed_deliveries = await app.store.write(_claim_due(actor, endpoint_id, now_us))
    webhooks = []
    for delivery in claimed_deliveries:
        delivery_data = await app.store.read(deliveries.find_delivery_data(delivery, now_us))
        message = (
            None
            if delivery_data is None
            else find_next_message(encode_event, delivery, delivery_data)
        )
        if message is None:
            newest = delivery.pending.newest
            await app.store.write(deliveries.record_delivered(delivery, newest, now_us, None, 1))
            continue
        token = f"{delivery.pending.payment_id}.{message.place}.{delivery.pending.epoch + 1}"
        webhooks.append(TakenWebhook(token, message))
    return webhooks


@operation
def _claim_due(
    actor: EndpointActor, endpoint_id: str, now_us: int
) -> Op[list[WebhookDeliveryClaim]]:
    endpoint = yield from get_owned(actor, endpoint_id)
    if endpoint.url:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"Endpoint {endpoint_id} has a URL and receives its events there",
        )
    return (yield from claims.claim_for_endpoint(endpoint, now_us, _LEASE_US))


async def _record_receipt(
    app: _Context, actor: EndpointActor, endpoint_id: str, receipt: WebhookReceipt
) -> None:
    parts = _TOKEN.fullmatch(receipt.token)
    if parts is None:
        raise validation_error("receipts", "has a token that Florin did not issue")
    target = _ReceiptTarget(parts[1], int(parts[2]), int(parts[3]), receipt.status)
    await app.store.write(_record_attempt(app, actor, endpoint_id, target))


@dataclass(frozen=True, slots=True)
class _ReceiptTarget:
    """The event of a receipt."""

    payment_id: str
    place: int
    epoch: int
    status: int | None


@operation
def _record_attempt(
    app: _Context, actor: EndpointActor, endpoint_id: str, target: _ReceiptTarget
) -> Op[None]:
    endpoint = yield from get_owned(actor, endpoint_id)
    pending = yield from claims.lock_claimed(endpoint_id, target.payment_id, target.epoch)
    if pending is None:
        # it lapsed, was delivered again, or was never taken
        return
    payment = yield from payments.find(target.payment_id)
    if payment is None or target.place <= pending.told:
        return
    history = yield from events.list_events(payment)
    event = next((event for event in history if event.place == target.place), None)
    if event is None:
        return
    delivery = WebhookDeliveryClaim(endpoint, replace(pending, epoch=pending.epoch - 1))
    now_us = app.clock.now_us()
    attempt = WebhookAttempt(
        endpoint_id,
        0,
        target.payment_id,
        target.place,
        event.event_type or "",
        now_us,
        0,
        target.status,
        None if target.status is not None else "not answered",
        "",
    )
    settings = app.settings.webhooks
    if attempt.is_success:
        yield from deliveries.record_delivered(
            delivery, target.place, now_us, attempt, settings.attempts_kept
        )
        return
    policy = DeliveryPolicy(int(settings.give_up_days * _DAY_US), settings.attempts_kept)
    yield from deliveries.record_failure(delivery, attempt, now_us, policy)
