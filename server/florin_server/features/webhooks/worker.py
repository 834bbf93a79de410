"""Delivers queued events: each is claimed under a lease, sent, and concluded alone.

A hanging endpoint occupies one connection of many. The number of attempts of one endpoint, one host
and one partner at a time is limited, and an endpoint that keeps failing is retried less and less
often. A partner has at most half of the attempts that the others leave, so that some are left for
the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit

from florin_server.base.clock import SystemClock, sleep_remaining, wait_for_first
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.outbound.outbound import (
    AddressBusy,
    HttpResponse,
    RequestFailed,
    SafeHttpClient,
)
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.cipher import DecryptionError
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.text import replace_unprintable
from florin_server.domain.webhooks import schedule, signing
from florin_server.domain.webhooks.endpoint import EndpointState, WebhookAttempt, WebhookEndpoint
from florin_server.features.webhooks.service.message import (
    EventEncoder,
    WebhookMessage,
    decrypt_keys,
    find_next_message,
)
from florin_server.features.webhooks.store import claims, deliveries, health
from florin_server.features.webhooks.store.claims import WebhookDeliveryClaim
from florin_server.features.webhooks.store.deliveries import DeliveryPolicy
from florin_server.operations.context import QuarantineContext
from florin_server.operations.service.quarantine import is_unexpected
from florin_server.settings.context import SettingsContext


class _Context(
    EventContext, MeterContext, QuarantineContext, SettingsContext, StorageContext, Protocol
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# events without a notification to this process are found after this
_POLL_S = 0.5
# and events that arrive meanwhile start together
_PAUSE_S = 0.01
# beyond the time of an attempt: the time to store its conclusion
_LEASE_MARGIN_S = 15.0
_DAY_US = 86_400_000_000
_DELETE_INTERVAL_S = 3600.0
_DELETE_BATCH_SIZE = 500
# of one endpoint at a time, while it accepts events
_CONCURRENT_MAX = 4
_GONE = 410
# responses in which an endpoint can say when it wants the next attempt
_BUSY = frozenset((429, 503))
# when a delivery without room at its host or partner is tried again
_CROWDED_RETRY_US = 100_000
# and of one without room at its address, which is known only after the name is resolved
_BUSY_ADDRESS_RETRY_US = 1_000_000
# of the target of a redirect
_LOCATION_CHARS = 200


class WebhookDeliverer:
    """Delivers for one process.

    Signatures have the time that receivers compare with theirs: the database's, where machines
    share one, because a machine's clock can be wrong; never a time that tests advanced.
    """

    def __init__(
        self, core: _Context, outbound: SafeHttpClient, encode_event: EventEncoder
    ) -> None:
        self._core = core
        self._outbound = outbound
        self._encode_event = encode_event
        self._due_event = asyncio.Event()
        for topic in (Topic.WEBHOOKS, Topic.PAYMENT, Topic.PAYOUT):
            core.notifier.subscribe(topic, self._due_event)
        self._settings = core.settings.webhooks
        self._policy = DeliveryPolicy(
            int(self._settings.give_up_days * _DAY_US), self._settings.attempts_kept
        )
        self._tasks: dict[asyncio.Task[None], WebhookDeliveryClaim] = {}
        self._attempts_by_endpoint: Counter[str] = Counter()
        # the last known state of endpoints with open attempts
        self._endpoints_by_id: dict[str, WebhookEndpoint] = {}
        self._attempts_by_host: Counter[str] = Counter()
        self._attempts_by_partner: Counter[str] = Counter()

    async def run(self) -> None:
        """Run until canceled; its claims are free for others then."""
        event = self._due_event
        # a failed run may have counted deliveries that it never started
        for counted in (
            self._attempts_by_endpoint,
            self._attempts_by_host,
            self._attempts_by_partner,
        ):
            counted.clear()
        try:
            store = self._core.store
            # claims of an earlier process, which no process has now
            if store.is_exclusive and await store.read(claims.has_claims()):
                await store.write(claims.release_all(self._core.clock.now_us()))
            while True:
                event.clear()
                checked_us = self._core.clock.now_us()
                if not await self._start_due():
                    await wait_for_first(
                        event.wait(), sleep_remaining(self._core.clock, _POLL_S, checked_us)
                    )
                # this machine's time: every change of a payment requests it
                await asyncio.sleep(_PAUSE_S)
        finally:
            await self._stop()

    async def _start_due(self) -> bool:
        """Start what is due, as far as there is room; False if there was nothing to begin."""
        room = self._settings.concurrency - len(self._tasks)
        if room <= 0:
            return False
        now_us = self._core.clock.now_us()
        busy = [
            endpoint_id
            for endpoint_id, count in self._attempts_by_endpoint.items()
            if count >= self._get_endpoint_limit(self._endpoints_by_id[endpoint_id])
        ]
        crowded = [
            partner_id
            for partner_id, count in self._attempts_by_partner.items()
            if count >= self._get_partner_limit(partner_id)
        ]
        if not await self._core.store.read(claims.is_due(now_us, busy, crowded)):
            return False
        lease_us = int((self._settings.timeout_s + _LEASE_MARGIN_S) * 1_000_000)
        claimed_deliveries = await self._core.store.write(
            claims.claim(now_us, lease_us, busy, room, crowded)
        )
        deferred_deliveries = [
            delivery for delivery in claimed_deliveries if not self._has_room(delivery)
        ]
        self._endpoints_by_id |= {
            delivery.endpoint.id: delivery.endpoint for delivery in claimed_deliveries
        }
        self._endpoints_by_id = {
            endpoint_id: self._endpoints_by_id[endpoint_id]
            for endpoint_id in self._attempts_by_endpoint
        }
        if deferred_deliveries:
            # others of the same host or partner are in progress
            await self._core.store.write(
                claims.release(deferred_deliveries, now_us + _CROWDED_RETRY_US)
            )
        for delivery in claimed_deliveries:
            if delivery not in deferred_deliveries:
                self._start(delivery)
        return len(claimed_deliveries) > len(deferred_deliveries)

    def _has_room(self, delivery: WebhookDeliveryClaim) -> bool:
        """Count it, if its endpoint, host and partner have room for one more."""
        endpoint = delivery.endpoint
        counted = (
            (self._attempts_by_endpoint, endpoint.id, self._get_endpoint_limit(endpoint)),
            (self._attempts_by_host, _get_host(endpoint.url), self._settings.host_concurrency),
            (
                self._attempts_by_partner,
                endpoint.partner_id,
                self._get_partner_limit(endpoint.partner_id),
            ),
        )
        if any(count[key] >= most for count, key, most in counted):
            return False
        for count, key, _ in counted:
            count[key] += 1
        return True

    def _get_endpoint_limit(self, endpoint: WebhookEndpoint) -> int:
        """Return how many simultaneous attempts it can have: several while it accepts events.

        It has one as soon as half of its partner's are in progress: many that hang leave room.
        """
        share = self._get_partner_limit(endpoint.partner_id)
        crowded = self._attempts_by_partner[endpoint.partner_id] >= share // 2
        return _CONCURRENT_MAX if endpoint.is_proven and not crowded else 1

    def _get_partner_limit(self, partner_id: str) -> int:
        """Return how many attempts a partner can have: half of what others leave, at least one."""
        other_count = self._attempts_by_partner.total() - self._attempts_by_partner[partner_id]
        return max(1, (self._settings.concurrency - other_count) // 2)

    def _start(self, delivery: WebhookDeliveryClaim) -> None:
        task = asyncio.create_task(self._deliver_or_quarantine(delivery))
        self._tasks[task] = delivery
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        endpoint = self._tasks.pop(task).endpoint
        for count, key in (
            (self._attempts_by_endpoint, endpoint.id),
            (self._attempts_by_host, _get_host(endpoint.url)),
            (self._attempts_by_partner, endpoint.partner_id),
        ):
            count[key] -= 1
            if not count[key]:
                del count[key]
        self._due_event.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # its claim lapses, and it is retried
            _log.error("an event could not be delivered", exc_info=error)

    async def _deliver_or_quarantine(self, delivery: WebhookDeliveryClaim) -> None:
        """Deliver; an event whose delivery fails unexpectedly is quarantined."""
        quarantine, pending = self._core.quarantine, delivery.pending
        name = f"{pending.endpoint_id}/{pending.payment_id}"
        try:
            await self._deliver(delivery)
        except Exception as error:
            if not is_unexpected(error):
                raise
            await quarantine.add(
                QuarantinedItemKind.DELIVERY,
                "",
                name,
                "deliver",
                error,
                deliveries.shelve(delivery),
            )

    async def _deliver(self, delivery: WebhookDeliveryClaim) -> None:
        core, now_us = self._core, self._core.clock.now_us()
        try:
            delivery_data = await core.store.read(deliveries.find_delivery_data(delivery, now_us))
            message = (
                None
                if delivery_data is None
                else find_next_message(self._encode_event, delivery, delivery_data)
            )
            if delivery_data is None or message is None:
                newest = delivery.pending.newest
                await core.store.write(
                    deliveries.record_delivered(delivery, newest, now_us, None, 1)
                )
                return
            try:
                keys = decrypt_keys(core, delivery.endpoint.id, delivery_data.secrets)
            except DecryptionError:
                reason = (
                    "its secret can no longer be decrypted: rotate the secret, then resume the "
                    "endpoint"
                )
                await core.store.write(deliveries.halt(delivery, reason, now_us))
                return
            headers = signing.build_headers(keys, message.id, int(self._get_wall_s()), message.body)
            await self._send(delivery, message, headers)
        except StoreError as error:
            if is_unexpected(error):
                raise
            _log.warning(
                "the result of a delivery was not stored; Florin delivers the event again: %s",
                error,
            )

    async def _send(
        self, delivery: WebhookDeliveryClaim, message: WebhookMessage, headers: dict[str, str]
    ) -> None:
        core, began_s = self._core, time.monotonic()
        answer: HttpResponse | RequestFailed
        try:
            answer = await self._outbound.send(
                "POST",
                delivery.endpoint.url,
                headers={
                    **headers,
                    "content-type": "application/json",
                    "user-agent": "Florin-Webhooks",
                },
                body=message.body,
                timeout_s=self._settings.timeout_s,
                response_bytes_max=self._settings.answer_bytes,
            )
        except AddressBusy:
            # nothing was sent, so nothing failed
            later_us = core.clock.now_us() + _BUSY_ADDRESS_RETRY_US
            await core.store.write(claims.release([delivery], later_us))
            return
        except RequestFailed as error:
            answer = error
        now_us = core.clock.now_us()
        took_ms = int((time.monotonic() - began_s) * 1000)
        attempt = _build_attempt(delivery, message, answer, now_us, took_ms)
        if attempt.is_success:
            await core.store.write(
                deliveries.record_delivered(
                    delivery, message.place, now_us, attempt, self._policy.attempt_log_size
                )
            )
            core.meters.record_webhook_attempt("delivered")
            return
        core.meters.record_webhook_attempt("failed")
        requested_wait_us = 0
        if isinstance(answer, HttpResponse) and answer.status in _BUSY:
            requested_wait_us = schedule.parse_retry_after_us(
                answer.retry_after, self._get_wall_s()
            )
        is_gone = attempt.status == _GONE
        steps = deliveries.record_failure(
            delivery,
            attempt,
            now_us,
            self._policy,
            is_gone=is_gone,
            requested_wait_us=requested_wait_us,
        )
        state = await core.store.write(steps)
        if state is EndpointState.PAUSED:
            _log.warning("webhook endpoint %s is paused", delivery.endpoint.id)

    def _get_wall_s(self) -> float:
        clock = self._core.clock
        # stopped clocks are those of tests
        return clock.real_now_us() / 1_000_000 if isinstance(clock, SystemClock) else time.time()

    async def _stop(self) -> None:
        claimed_deliveries = list(self._tasks.values())
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._outbound.close()
        with suppress(StoreError):
            await self._core.store.write(
                claims.release(claimed_deliveries, self._core.clock.now_us())
            )


def _build_attempt(
    delivery: WebhookDeliveryClaim,
    message: WebhookMessage,
    answer: HttpResponse | RequestFailed,
    now_us: int,
    took_ms: int,
) -> WebhookAttempt:
    pending = delivery.pending
    if isinstance(answer, RequestFailed):
        status, fault, body = None, f"{answer.fault}: {answer}", ""
    else:
        # the store accepts no NUL
        body = answer.body.decode("utf-8", "replace").replace("\0", "\ufffd")
        status, fault = answer.status, None
        if 300 <= status < 400:
            fault = (
                f"redirected: Florin does not follow redirects{_format_redirect(answer.location)}"
            )
    return WebhookAttempt(
        pending.endpoint_id,
        0,
        pending.payment_id,
        message.place,
        message.event_type,
        now_us,
        took_ms,
        status,
        fault,
        body,
    )


def _format_redirect(location: str) -> str:
    """Return the target of a redirect in a form for display: printable, and cut to fit."""
    target = replace_unprintable(location[:_LOCATION_CHARS], "\ufffd")
    cut = "…" if len(location) > _LOCATION_CHARS else ""
    return f"; it leads to {target}{cut}" if target else ""


def _get_host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or parts.scheme}"


async def delete_old_hours(app: StorageContext) -> None:
    """Delete the hours of endpoints that are a week old, in small batches until canceled."""
    while True:
        now_us = app.clock.now_us()
        deleted = await app.store.write(health.forget_old(now_us, _DELETE_BATCH_SIZE))
        if deleted < _DELETE_BATCH_SIZE:
            await sleep_remaining(app.clock, _DELETE_INTERVAL_S, now_us)
