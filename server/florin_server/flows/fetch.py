"""A wallet resolves a build action into calls that it can execute."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.levers import Lever
from florin_server.domain.payment import Action, Issued, Option, Payment, Status
from florin_server.flows import capture
from florin_server.flows.app import App, Caller
from florin_server.flows.load import find, not_payable
from florin_server.rails.base import RailUnavailable
from florin_server.store import payments


async def fetch(
    app: App, caller: Caller, text: str, option_id: str, data: str, *, collected: str | None = None
) -> tuple[Action, ...]:
    """The executable actions of an option, or of its build; repeating it gives the same ones.

    `data` is that of the option's build, or empty. `collected` is the JSON of data about the buyer
    that the wallet brings along.
    """
    payment = await find(app, caller, text)
    if payment.status is not Status.REQUIRES_ACTION:
        raise not_payable(payment)
    option = await open_option(app, payment, option_id)
    build = option.build
    # it stood for the whole option, as long as nothing was known about the buyer
    whole = data == capture.build_of(payment, option).data
    if data and not whole and (build is None or data != build.data):
        raise FlorinError(Code.INVALID_PARAMS, "Unknown build data")
    told = await capture.require(app, payment, option, collected)
    if build is None:
        return option.resolved(()) or ()
    issued = await _resolve(app, option)
    if whole or (told and not data):
        return option.resolved(issued) or ()
    return issued[0].actions


async def open_option(app: App, payment: Payment, option_id: str) -> Option:
    """The payment's option, if it exists and its price still holds."""
    option = await app.store.read(payments.option(payment.id, option_id))
    if option is None:
        raise FlorinError(Code.INVALID_PARAMS, "Unknown option")
    lapsed = option.expires_at is not None and app.clock.now_us() >= option.expires_at * 1_000_000
    if lapsed or payment.lever is Lever.QUOTE_EXPIRED:
        raise FlorinError(Code.QUOTE_EXPIRED)
    return option


async def _resolve(app: App, option: Option) -> Sequence[Issued]:
    """All that was issued for the option, the newest first; one more if that is needed now."""
    known = await app.store.read(payments.issued(option.payment_id, option.id))
    rail = app.rails[option.chain_id]
    try:
        fresh = await rail.build(option, known, app.clock.now_us())
    except RailUnavailable as error:
        raise silent() from error
    # two calls at a time may both resolve it: what was stored first is told to both
    return known if fresh is None else await app.store.write(payments.put_issued(fresh))


def silent() -> FlorinError:
    """The refusal while a chain does not answer: nothing was done, and it may be tried again."""
    return FlorinError(
        Code.INTERNAL_ERROR, "The chain does not answer", unavailable=True, retry_after_s=1
    )
