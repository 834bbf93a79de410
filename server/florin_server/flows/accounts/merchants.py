"""A partner's merchants: created, listed, looked at, changed, deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from florin_server.domain import cursor
from florin_server.domain.accounts.contact import faults
from florin_server.domain.errors import Code, FlorinError, Issue, invalid_members
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.refusals import merchant_unknown
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.store.accounts import destinations, merchants
from florin_server.store.accounts.destinations import Settlements
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments.idempotency import Replay

# merchants in one answer, if the caller does not say
LIMIT = 20


@dataclass(frozen=True, slots=True)
class NewMerchant:
    """A merchant as a partner asks for it."""

    name: str
    email: str
    icon_url: str | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to change about a merchant; None keeps, an empty icon takes it away."""

    name: str | None = None
    email: str | None = None
    icon_url: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One page, newest first; `total` counts all that the filters let through."""

    merchants: list[Merchant]
    total: int
    next_cursor: str | None


async def create(
    app: App, caller: Caller, wanted: NewMerchant, receipt: Callable[[Merchant], bytes]
) -> Merchant | Replay:
    """Creates a merchant in the caller's mode, or repeats the answer of its idempotency key."""
    if found := tuple(faults(wanted.name, wanted.email, wanted.icon_url)):
        return await once(app, caller, failing(invalid_members(found)), receipt)
    merchant = Merchant(
        id=short_id("mrch_", app.randbytes),
        partner_id=caller.partner,
        name=wanted.name,
        email=wanted.email,
        icon_url=wanted.icon_url,
        status="active",
        live=caller.live,
        created_at_us=app.clock.now_us(),
    )
    outcome = await once(app, caller, merchants.create(merchant), receipt)
    _want_icon(app, outcome)
    return outcome


async def listed(
    app: App,
    caller: Caller,
    *,
    status: str | None = None,
    search: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Listed:
    """The caller's merchants, without deleted ones; `after` is the cursor of the page before."""
    wanted = merchants.Wanted(caller.partner, caller.live, status, search)
    binding = json.dumps(["merchants", wanted.partner_id, wanted.live, status, search])
    position = cursor.decode(after, binding, int, str) if after is not None else None
    page = await app.store.survey(merchants.page(wanted, position, limit or LIMIT))
    following = None
    if page.more:
        last = page.merchants[-1]
        following = cursor.encode((last.created_at_us, last.id), binding)
    return Listed(page.merchants, page.total, following)


async def get(app: App, caller: Caller, merchant_id: str) -> tuple[Merchant, Settlements]:
    """A merchant and where it wants its money, at one moment."""
    return await app.store.read(_look(caller, merchant_id))


async def update(
    app: App,
    caller: Caller,
    merchant_id: str,
    changes: Changes,
    receipt: Callable[[Merchant], bytes],
) -> Merchant | Replay:
    """Changes a merchant, or repeats the answer of its idempotency key."""
    try:
        _check(changes)
        work = _change(caller, merchant_id, changes)
    except FlorinError as fault:
        work = failing(fault)
    outcome = await once(app, caller, work, receipt)
    app.accounts.changed()
    _want_icon(app, outcome)
    return outcome


async def delete(
    app: App, caller: Caller, merchant_id: str, receipt: Callable[[str], bytes]
) -> str | Replay:
    """Hides a merchant and stops new payments; gives its id, also if it was deleted before."""
    work = _delete(caller, merchant_id, app.clock.now_us())
    outcome = await once(app, caller, work, receipt)
    app.accounts.changed()
    return outcome


@operation
def require(caller: Caller, merchant_id: str) -> Op[Merchant]:
    """The caller's merchant; refused if it is another's, of the other mode, deleted, or nobody."""
    found = yield from merchants.owned(merchant_id, caller.partner, live=caller.live)
    if found is None:
        raise merchant_unknown(wcp_profile=caller.wcp_profile)
    return found


@operation
def _look(caller: Caller, merchant_id: str) -> Op[tuple[Merchant, Settlements]]:
    merchant = yield from require(caller, merchant_id)
    return merchant, (yield from destinations.of_merchant(merchant_id))


def _want_icon(app: App, outcome: Merchant | Replay) -> None:
    """Has a new picture asked for, so that the first buyer sees it."""
    if isinstance(outcome, Merchant) and outcome.icon_url is not None:
        app.icons.want(outcome.icon_url, outcome.partner_id)


def _check(changes: Changes) -> None:
    if changes == Changes():
        raise FlorinError(
            Code.PARAMS_VALIDATION,
            "Validation error: at least one of merchantName, merchantEmail, iconUrl is required",
            issues=(Issue("", "must have one of merchantName, merchantEmail, iconUrl"),),
        )
    if found := tuple(faults(changes.name, changes.email, changes.icon_url or None)):
        raise invalid_members(found)


@operation
def _change(caller: Caller, merchant_id: str, changes: Changes) -> Op[Merchant]:
    changed = yield from merchants.change(
        merchant_id,
        caller.partner,
        live=caller.live,
        name=changes.name,
        email=changes.email,
        icon_url=changes.icon_url,
    )
    if changed is None:
        raise merchant_unknown(wcp_profile=caller.wcp_profile)
    return changed


@operation
def _delete(caller: Caller, merchant_id: str, now_us: int) -> Op[str]:
    known = yield from merchants.delete(
        merchant_id, caller.partner, live=caller.live, now_us=now_us
    )
    if not known:
        raise merchant_unknown(wcp_profile=caller.wcp_profile)
    return merchant_id
