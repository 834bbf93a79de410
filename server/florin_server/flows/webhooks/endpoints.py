"""Endpoints: made, listed, changed, deleted, and given other secrets.

A secret is told once, when it is made. It is kept sealed, as what an endpoint is told has to be
signed with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from florin_server.domain.accounts.account import Standing
from florin_server.domain.errors import Code, FlorinError, invalid
from florin_server.domain.ids import short_id
from florin_server.domain.refusals import upgrade_unfinished
from florin_server.domain.urls import UrlError, canonical_url
from florin_server.domain.webhooks.endpoint import (
    ALL_TYPES,
    BY_OWNER,
    EVENT_TYPES,
    FORMAT,
    Attempt,
    Endpoint,
    EndpointState,
)
from florin_server.domain.webhooks.signing import Keys
from florin_server.flows.app import App, Core
from florin_server.store.accounts import merchants, standing
from florin_server.store.engine.query import Op, operation
from florin_server.store.upgrades import older_releases
from florin_server.store.webhooks import endpoints
from florin_server.store.webhooks.endpoints import Owner, Secret

PAGE = 100
_DAY_S = 86_400
OVERLAP_S, OVERLAP_MAX_S = _DAY_S, 7 * _DAY_S


@dataclass(frozen=True, slots=True)
class By:
    """Who asks: a partner in one mode; the operator has no `standing` that could have changed."""

    partner_id: str
    live: bool
    standing: Standing | None = None

    @property
    def owner(self) -> Owner:
        """Whose endpoints are meant."""
        return Owner(self.partner_id, self.live)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An endpoint as it is asked for; None leaves what there is."""

    url: str | None = None
    events: frozenset[str] | None = None
    description: str | None = None
    paused: bool | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """An endpoint with what verifies its messages; the secret where it was just made."""

    endpoint: Endpoint
    public_keys: Sequence[str]
    secret: str = field(default="", repr=False)


async def by_operator(app: App, endpoint_id: str) -> By:
    """The operator, as whoever has an endpoint."""
    found = await app.store.read(endpoints.anybodys(endpoint_id))
    if found is None:
        raise _unknown()
    return By(found.partner_id, found.live)


async def by_partner(app: App, partner_id: str, *, live: bool) -> By:
    """The operator, as a partner."""
    found = await app.store.read(merchants.partner(partner_id))
    if found is None:
        raise FlorinError(Code.PARTNER_NOT_FOUND)
    return By(found.id, live)


async def create(app: App, by: By, merchant_id: str | None, wanted: Wanted) -> Told:
    """Makes an endpoint of the partner, or of one of its merchants."""
    wanted = _checked(app, wanted)
    url, events = wanted.url or "", wanted.events or frozenset()
    made = Endpoint(
        id=short_id("whe_", app.randbytes),
        partner_id=by.partner_id,
        merchant_id=merchant_id,
        live=by.live,
        url=url,
        events=events,
        description=wanted.description or "",
        version=FORMAT,
        state=EndpointState.ACTIVE,
        paused_reason=None,
        created_at_us=app.clock.now_us(),
    )
    keys = Keys.new(app.randbytes)
    first = _secret(app, made.id, 1, keys)
    await app.store.write(_create(by, made, first, app.settings.webhooks.endpoints_max))
    return Told(made, [first.public_key], keys.secret)


async def listed(
    app: App, by: By | None, merchant_id: str | None, after: str = "", limit: int = PAGE
) -> list[Endpoint]:
    """Endpoints by id, after one; the operator, who is nobody here, sees all of them."""
    if by is None:
        return await app.store.read(endpoints.listed(None, merchant_id, None, after, limit))
    return await app.store.read(endpoints.listed(by.partner_id, merchant_id, by.live, after, limit))


async def get(app: App, by: By, endpoint_id: str) -> Told:
    """One endpoint."""
    return await app.store.read(_look(by, endpoint_id, app.clock.now_us()))


async def change(app: App, by: By, endpoint_id: str, wanted: Wanted) -> Told:
    """Changes an endpoint: where it is, what it hears, whether it is paused."""
    wanted = _checked(app, wanted)
    told = await app.store.write(_change(by, endpoint_id, wanted, app.clock.now_us()))
    app.webhooks.asked.set()
    return told


async def delete(app: App, by: By, endpoint_id: str) -> None:
    """Forgets an endpoint, and all that waits for it; a second time it is unknown."""
    await app.store.write(_delete(by, endpoint_id))


async def rotate(app: App, by: By, endpoint_id: str, overlap_s: int | None) -> Told:
    """Gives an endpoint another secret; those before it sign too, for as long as they overlap."""
    keys = Keys.new(app.randbytes)
    now_us = app.clock.now_us()
    until_us = now_us + (OVERLAP_S if overlap_s is None else overlap_s) * 1_000_000
    told = await app.store.write(_rotate(app, by, endpoint_id, keys, (now_us, until_us)))
    app.webhooks.asked.set()
    return Told(told.endpoint, told.public_keys, keys.secret)


async def attempts(
    app: App, by: By, endpoint_id: str, payment_id: str | None, limit: int = PAGE
) -> Sequence[Attempt]:
    """An endpoint's last attempts, the newest first."""
    return await app.store.read(_attempts(by, endpoint_id, payment_id, limit))


def sealed_for(endpoint_id: str, n: int) -> str:
    """The place that a secret is sealed for."""
    return f"webhook/{endpoint_id}/{n}"


def _secret(core: Core, endpoint_id: str, n: int, keys: Keys) -> Secret:
    sealed = core.seal.close(keys.kept, sealed_for(endpoint_id, n), core.randbytes)
    return Secret(n, sealed, keys.public_key, None)


def _checked(app: App, wanted: Wanted) -> Wanted:
    """Return what is asked for with its URL in the one spelling; FlorinError with the reason."""
    check_types(wanted.events or frozenset())
    if not wanted.url:
        return wanted
    try:
        # as whoever lists networks has endpoints in them
        url = canonical_url(wanted.url, with_http=bool(app.settings.webhooks.networks))
    except UrlError as error:
        raise invalid("url", str(error)) from error
    return replace(wanted, url=url)


def check_types(events: Collection[str]) -> None:
    """Raise FlorinError for what is neither a type of event nor `*`."""
    for event_type in sorted(events):
        if event_type not in (*EVENT_TYPES, ALL_TYPES):
            raise invalid("events", f"{event_type[:40]} is none of {', '.join(EVENT_TYPES)}, *")


def _unknown() -> FlorinError:
    return FlorinError(
        Code.INVALID_PARAMS,
        "No such webhook endpoint",
        details={"reason": "webhook_not_found"},
        like=Code.NOT_FOUND,
    )


def _taken(endpoint_id: str) -> FlorinError:
    return FlorinError(
        Code.INVALID_STATE,
        f"Endpoint {endpoint_id} has this URL; if its secret is lost, rotate it",
        details={"reason": "webhook_url_taken"},
        like=Code.ALREADY_REFUNDED,
    )


@operation
def _require(by: By, merchant_id: str | None) -> Op[None]:
    yield from standing.require(by.standing)
    if merchant_id is None:
        return
    if (yield from merchants.owned(merchant_id, by.partner_id, live=by.live)) is None:
        raise FlorinError(Code.MERCHANT_NOT_FOUND)


@operation
def owned(by: By, endpoint_id: str) -> Op[Endpoint]:
    """Part of an operation: an endpoint of who asks, which nobody else changes meanwhile."""
    yield from standing.require(by.standing)
    found = yield from endpoints.locked(by.owner, endpoint_id)
    if found is None:
        raise _unknown()
    return found


@operation
def _create(by: By, made: Endpoint, first: Secret, limit: int) -> Op[None]:
    yield from _require(by, made.merchant_id)
    yield from _check_all_types(made.events)
    try:
        known = yield from endpoints.add(made, first, limit)
    except OverflowError:
        raise FlorinError(
            Code.INVALID_STATE,
            f"There are {limit} endpoints, which is as many as there may be",
            details={"reason": "too_many_webhooks"},
        ) from None
    if known is not None:
        raise _taken(known)


@operation
def _look(by: By, endpoint_id: str, now_us: int) -> Op[Told]:
    found = yield from endpoints.one(by.owner, endpoint_id)
    if found is None:
        raise _unknown()
    kept = yield from endpoints.secrets(endpoint_id, now_us)
    return Told(found, [one.public_key for one in kept])


@operation
def _change(by: By, endpoint_id: str, wanted: Wanted, now_us: int) -> Op[Told]:
    known = yield from owned(by, endpoint_id)
    yield from _check_all_types(wanted.events or ())
    url = known.url if wanted.url is None else wanted.url
    if url != known.url:
        taken = yield from endpoints.taken(known.owner, known.live, url)
        if taken is not None:
            raise _taken(taken)
    yield from endpoints.change(
        endpoint_id,
        url,
        known.events if wanted.events is None else wanted.events,
        known.description if wanted.description is None else wanted.description,
    )
    if wanted.paused:
        yield from endpoints.pause(endpoint_id, BY_OWNER)
    elif wanted.paused is False:
        yield from endpoints.resume(endpoint_id, now_us)
    return (yield from _look(by, endpoint_id, now_us))


def _check_all_types(events: Collection[str]) -> Op[None]:
    """Refuse ALL_TYPES while older processes may deliver, which take it for no type."""
    if ALL_TYPES in events and (yield from older_releases.is_held()):
        raise upgrade_unfinished()


@operation
def _delete(by: By, endpoint_id: str) -> Op[None]:
    yield from owned(by, endpoint_id)
    yield from endpoints.forget(endpoint_id)


@operation
def _rotate(
    app: App, by: By, endpoint_id: str, keys: Keys, overlap_us: tuple[int, int]
) -> Op[Told]:
    yield from owned(by, endpoint_id)
    now_us, until_us = overlap_us
    n = yield from endpoints.next_secret(endpoint_id)
    yield from endpoints.rotate(endpoint_id, _secret(app, endpoint_id, n, keys), now_us, until_us)
    return (yield from _look(by, endpoint_id, now_us))


@operation
def _attempts(
    by: By, endpoint_id: str, payment_id: str | None, limit: int
) -> Op[Sequence[Attempt]]:
    if (yield from endpoints.one(by.owner, endpoint_id)) is None:
        raise _unknown()
    return (yield from endpoints.attempts(endpoint_id, payment_id, limit))
