"""A wallet resolves a build action into calls that it can execute."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import (
    Action,
    FreeNonce,
    Option,
    Payment,
    ResolvedBuild,
    Status,
)
from florin_server.flows.app import App, Caller
from florin_server.flows.capture import requirement
from florin_server.flows.payments.load import find, not_payable, open_option, unanswered
from florin_server.flows.payouts.opening import openable, places
from florin_server.rails.protocol import Rail
from florin_server.rails.types import NotReceivable, RailUnavailable
from florin_server.store.accounts import standing
from florin_server.store.payments import payments
from florin_server.store.settlement import durable_nonces

_log = logging.getLogger(__name__)

# a receiver who is short may be helped by a person
_RETRY_S = 60
# who has less time than this is as well served with a blockhash
_SLOW_US = 30 * 1_000_000
# longer than anybody takes to sign; whoever fetches and leaves keeps a nonce from others
_HOLD_US = 3600 * 1_000_000


async def fetch(
    app: App,
    caller: Caller,
    payment_ref: str,
    option_id: str,
    data: str,
    *,
    collected: str | None = None,
) -> tuple[Action, ...]:
    """The executable actions of an option, or of its build; repeating it gives the same ones.

    `data` is that of the option's build, or empty. `collected` is the JSON of data about the buyer
    that the wallet brings along.
    """
    payment = await find(app, caller, payment_ref)
    if payment.status is not Status.REQUIRES_ACTION:
        raise not_payable(payment)
    option = await open_option(app, payment, option_id)
    build = option.build
    # it stood for the whole option, as long as nothing was known about the buyer
    whole = data == requirement.build_of(payment, option).data
    if data and not whole and (build is None or data != build.data):
        raise FlorinError(Code.INVALID_PARAMS, "Unknown build data")
    told = await requirement.require(app, caller, payment, option, collected)
    if build is None:
        return option.resolved(()) or ()
    issued = await _resolve(app, caller, payment, option)
    if whole or (told.needed and not data):
        return option.resolved(issued) or ()
    return issued[0].actions


async def _resolve(
    app: App, caller: Caller, payment: Payment, option: Option, *, durable: bool = True
) -> Sequence[ResolvedBuild]:
    """Return all that was issued for the option, the newest first; one more if it is needed now.

    Without `durable` it takes no durable nonce, nor if it had one before: what its wallet could not
    use once, or left, is replaced by a blockhash.
    """
    known = await app.store.read(payments.issued(option.payment_id, option.id))
    rail, until_us = app.rails[option.chain_id], _held_until(app, payment, option)
    durable = durable and not any(one.has_nonce for one in known)
    usable = known if await _is_usable(app, option, known) else ()
    request = durable_nonces.NonceRequest(payment.id, option.id, option.payer, payment.partner_id)
    spare = await _spare(app, rail, until_us, request) if durable else None
    wanted = places(option.asset, rail.terms.split(option))
    may_open = await openable(app, rail, payment.merchant_id, wanted)
    try:
        fresh = await rail.offers.build(option, usable, app.clock.now_us(), spare, may_open)
    except NotReceivable as error:
        _log.warning("payment %s: %s", option.payment_id, error)
        raise FlorinError(
            Code.INTERNAL_ERROR, str(error), unavailable=True, retry_after_s=_RETRY_S
        ) from error
    except RailUnavailable as error:
        raise unanswered() from error
    if fresh is None:
        return known
    fresh = replace(fresh, n=len(known))
    if spare is not None and not _may_take_nonce(app, caller, request):
        return await _resolve(app, caller, payment, option, durable=False)
    if spare is None:
        # two calls at a time may both resolve it: what was stored first is told to both
        issue = payments.put_issued(fresh)
    else:
        share = (len(rail.durable_nonces.addresses) if rail.durable_nonces else 0, request)
        issue = durable_nonces.issue(fresh, rail.chain_id, spare, until_us, share)
    try:
        return await app.store.write(standing.checked(caller.standing, issue))
    except durable_nonces.Raced:
        return await _resolve(app, caller, payment, option)


async def _is_usable(app: App, option: Option, known: Sequence[ResolvedBuild]) -> bool:
    """Return False if the newest that was issued has a nonce that is not kept for the option."""
    if not known or not known[0].has_nonce:
        return True
    kept = durable_nonces.is_kept(option.chain_id, option.payment_id, option.id)
    return await app.store.read(kept)


async def _spare(
    app: App, rail: Rail, until_us: int, request: durable_nonces.NonceRequest
) -> FreeNonce | None:
    """Return a free durable nonce if the buyer may need one, and nobody's share is exceeded."""
    slow = until_us - app.clock.now_us() >= _SLOW_US
    if rail.durable_nonces is None or not slow:
        return None
    return await app.store.read(
        durable_nonces.free(rail.chain_id, rail.durable_nonces.addresses, request)
    )


def _may_take_nonce(app: App, caller: Caller, request: durable_nonces.NonceRequest) -> bool:
    """Count a nonce against the hour of its payer, the caller and the partner."""
    return app.limits.take_nonce(
        request.payer, caller.origin, request.partner_id, is_key=caller.app is None
    )


def _held_until(app: App, payment: Payment, option: Option) -> int:
    """How long a nonce is kept for an option, microseconds since 1970."""
    ends = payment.expires_at if option.expires_at is None else option.expires_at
    return min(min(ends, payment.expires_at) * 1_000_000, app.clock.now_us() + _HOLD_US)
