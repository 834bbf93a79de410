"""Events are told again: those of one payment, or those since a time, page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace

from florin_server.domain import cursor
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.ids import made_from
from florin_server.domain.webhooks.endpoint import (
    ALL_TYPES,
    EndpointState,
    expand_types,
)
from florin_server.flows.app import App
from florin_server.flows.webhooks.endpoints import By, check_types, owned
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments
from florin_server.store.webhooks import replays
from florin_server.store.webhooks.replays import WAITING_MAX, Asked, Place

# for how long a payment may go on once it can be confirmed no more, and is found all the same
_SETTLES_S = 7 * 86_400
_FULL_RETRY_S = 5
_PAYMENTS = -1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Events since a time; of all types that the endpoint hears of if none is named."""

    since_us: int
    types: frozenset[str]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """Of how many payments events are told again, and where the next page begins."""

    payments: int
    next_cursor: str | None


async def one(app: App, by: By, endpoint_id: str, payment_id: str, version: int) -> int:
    """Has a payment's events told again from a place on; answers the newest place."""
    newest = await app.store.write(_one(by, endpoint_id, payment_id, version, app.clock.now_us()))
    app.webhooks.asked.set()
    return newest


async def since(app: App, by: By, endpoint_id: str, wanted: Wanted) -> Replayed:
    """Has one page of events told again.

    FlorinError(rate_limited) while as much waits for the endpoint as may.
    """
    check_types(wanted.types)
    if ALL_TYPES in wanted.types:
        wanted = replace(wanted, types=frozenset())
    first = wanted.since_us // 1000 - 1000 * (app.settings.payment_ttl_max_s + _SETTLES_S)
    oldest = made_from(first)
    listed = f"replay/{endpoint_id}/{wanted.since_us}/{' '.join(sorted(wanted.types))}"
    after = Place(oldest)
    if wanted.cursor is not None:
        payment_id, later_us = cursor.decode(wanted.cursor, listed, str, int)
        after = Place(payment_id, None if later_us == _PAYMENTS else later_us)
    steps = _since(by, endpoint_id, wanted, (oldest, after), app.clock.now_us())
    count, following = await app.store.write(steps)
    app.webhooks.asked.set()
    if following is None:
        return Replayed(count, None)
    later_us = _PAYMENTS if following.later_us is None else following.later_us
    return Replayed(count, cursor.encode((following.payment_id, later_us), listed))


@operation
def _one(by: By, endpoint_id: str, payment_id: str, version: int, now_us: int) -> Op[int]:
    known = yield from owned(by, endpoint_id)
    found = yield from payments.one(payment_id)
    if (
        found is None
        or (found.partner_id, found.live) != (by.partner_id, by.live)
        or known.merchant_id not in {None, found.merchant_id}
    ):
        raise FlorinError(Code.PAYMENT_NOT_FOUND)
    return (yield from replays.one(endpoint_id, payment_id, version, now_us))


@operation
def _since(
    by: By, endpoint_id: str, wanted: Wanted, places: tuple[str, Place], now_us: int
) -> Op[tuple[int, Place | None]]:
    known = yield from owned(by, endpoint_id)
    heard = expand_types(known.events)
    if unheard := sorted(wanted.types - heard):
        raise invalid("events", f"the endpoint does not hear of {unheard[0]}")
    if (yield from replays.is_full(endpoint_id)):
        if known.state is EndpointState.PAUSED:
            raise FlorinError(Code.INVALID_STATE, "Endpoint is paused: resume it first")
        raise FlorinError(
            Code.RATE_LIMITED,
            f"{WAITING_MAX} payments wait for the endpoint: go on once it has taken some",
            retry_after_s=_FULL_RETRY_S,
        )
    oldest, after = places
    types = wanted.types or heard
    asked = Asked(wanted.since_us, types, oldest, narrow=types != heard)
    return (yield from replays.page(known, asked, after, now_us))
