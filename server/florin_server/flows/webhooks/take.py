"""Endpoints without a URL are asked for: whoever has them takes what waits, and says what became.

It is how a machine that nobody can reach hears of changes: one on which a shop is being built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.webhooks.endpoint import Attempt
from florin_server.flows.app import App
from florin_server.flows.webhooks.endpoints import By, owned
from florin_server.flows.webhooks.message import Message, next_message
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments
from florin_server.store.webhooks import deliveries, events
from florin_server.store.webhooks.deliveries import Claimed, Policy

_LEASE_US = 60_000_000
_LOOK_S = 0.25
_DAY_US = 86_400_000_000
_TOKEN = re.compile(r"(pay_[A-Za-z0-9_-]{1,60})\.([0-9]{1,9})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Taken:
    """One event that was handed out; the token names it in its receipt."""

    token: str
    message: Message


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one: the HTTP status that it was answered with, None if it was not."""

    token: str
    status: int | None


async def take(
    app: App, by: By, endpoint_id: str, receipts: Sequence[Receipt], wait_ms: int
) -> list[Taken]:
    """Takes receipts back, and answers what waits, as soon as there is something."""
    for one in receipts:
        await _conclude(app, by, endpoint_id, one)
    until_us = app.clock.steady_us() + wait_ms * 1000
    while not (found := await _claim(app, by, endpoint_id)):
        left_us = until_us - app.clock.steady_us()
        if left_us <= 0:
            break
        await app.clock.sleep(min(_LOOK_S, left_us / 1_000_000))
    return found


async def _claim(app: App, by: By, endpoint_id: str) -> list[Taken]:
    now_us = app.clock.now_us()
    claims = await app.store.write(_claimed(by, endpoint_id, now_us))
    found = []
    for one in claims:
        work = await app.store.read(deliveries.work(one, now_us))
        message = None if work is None else next_message(app, one, work)
        if message is None:
            newest = one.waiting.newest
            await app.store.write(deliveries.told(one, newest, now_us, None, 1))
            continue
        token = f"{one.waiting.payment_id}.{message.version}.{one.waiting.epoch + 1}"
        found.append(Taken(token, message))
    return found


@operation
def _claimed(by: By, endpoint_id: str, now_us: int) -> Op[list[Claimed]]:
    endpoint = yield from owned(by, endpoint_id)
    if endpoint.url:
        raise FlorinError(Code.INVALID_STATE, "Endpoint has a URL, and is told there")
    return (yield from deliveries.claim_of(endpoint, now_us, _LEASE_US))


async def _conclude(app: App, by: By, endpoint_id: str, receipt: Receipt) -> None:
    parts = _TOKEN.fullmatch(receipt.token)
    if parts is None:
        raise invalid("receipts", "has a token that was not handed out")
    named = _Named(parts[1], int(parts[2]), int(parts[3]), receipt.status)
    await app.store.write(_concluded(app, by, endpoint_id, named))


@dataclass(frozen=True, slots=True)
class _Named:
    """What a receipt is about."""

    payment_id: str
    version: int
    epoch: int
    status: int | None


@operation
def _concluded(app: App, by: By, endpoint_id: str, named: _Named) -> Op[None]:
    endpoint = yield from owned(by, endpoint_id)
    waiting = yield from deliveries.held(endpoint_id, named.payment_id, named.epoch)
    if waiting is None:
        # it lapsed, was told again, or was never handed out
        return
    of = yield from payments.one(named.payment_id)
    if of is None or named.version <= waiting.told:
        return
    history = yield from events.history(of)
    event = next((known for known in history if known.place == named.version), None)
    if event is None:
        return
    one = Claimed(endpoint, replace(waiting, epoch=waiting.epoch - 1))
    now_us = app.clock.now_us()
    attempt = Attempt(
        endpoint_id,
        0,
        named.payment_id,
        named.version,
        event.event_type or "",
        now_us,
        0,
        named.status,
        None if named.status is not None else "not answered",
        "",
    )
    settings = app.settings.webhooks
    if attempt.succeeded:
        yield from deliveries.told(one, named.version, now_us, attempt, settings.attempts_kept)
        return
    policy = Policy(int(settings.give_up_days * _DAY_US), settings.attempts_kept)
    yield from deliveries.failed(one, attempt, now_us, policy)
