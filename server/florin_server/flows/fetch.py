"""A wallet resolves a build action into calls that it can execute."""

from __future__ import annotations

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payment import Action, Option, Payment, Status
from florin_server.flows.app import App, Caller
from florin_server.flows.load import find, not_payable
from florin_server.store import payments


async def fetch(
    app: App, caller: Caller, text: str, option_id: str, data: str
) -> tuple[Action, ...]:
    """The executable actions of an option; repeating it gives the same ones."""
    payment = await find(app, caller, text)
    if payment.status is not Status.REQUIRES_ACTION:
        raise not_payable(payment)
    option = await open_option(app, payment, option_id)
    actions = tuple(action for action in option.actions if isinstance(action, Action))
    if data:
        # every action of this option is inline: no build could have carried this text
        raise FlorinError(Code.INVALID_PARAMS, "Unknown build data")
    return actions


async def open_option(app: App, payment: Payment, option_id: str) -> Option:
    """The payment's option, if it exists and its price still holds."""
    option = await app.store.read(payments.option(payment.id, option_id))
    if option is None:
        raise FlorinError(Code.INVALID_PARAMS, "Unknown option")
    if option.expires_at is not None and app.clock.now_us() >= option.expires_at * 1_000_000:
        raise FlorinError(Code.QUOTE_EXPIRED)
    return option
