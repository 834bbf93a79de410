"""Finding a payment for a caller, as it stands at this moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import is_payment_id_shape
from florin_server.domain.payments.links import resolve_payment_id
from florin_server.domain.payments.payment import Merchant, Option, Payment, Status
from florin_server.domain.payments.triggers import Trigger
from florin_server.flows.app import App, Caller
from florin_server.rails.protocol import Rail
from florin_server.store.accounts import merchants
from florin_server.store.payments import payments


def payment_id_of(app: App, payment_ref: str) -> str | None:
    """The payment id that a path segment or link names; None if it names none."""
    resolved = resolve_payment_id(payment_ref, app.links.hosts)
    return resolved if is_payment_id_shape(resolved) else None


async def current(app: App, payment: Payment) -> Payment:
    """The payment at this moment: one whose time is up becomes expired before anybody sees it."""
    now_us = app.clock.now_us()
    seen = payment.at(now_us)
    if seen.status is payment.status:
        return payment
    for expired in await app.store.write(payments.expire((payment.id,), now_us)):
        return await app.changed(expired)
    # somebody else changed it in between; that change is what counts
    return await app.store.reader.payment(payment.id) or seen


def visible(caller: Caller, payment: Payment) -> bool:
    """Wallets see every payment of their mode, merchants their own."""
    if payment.live is not caller.live:
        return False
    return caller.merchant is None or caller.merchant.id == payment.merchant_id


def of_partner(caller: Caller, payment: Payment) -> bool:
    """Partners see those of all their merchants."""
    return visible(caller, payment) and payment.partner_id == caller.partner


async def find(
    app: App,
    caller: Caller,
    payment_ref: str,
    sees: Callable[[Caller, Payment], bool] = visible,
) -> Payment:
    """The caller's payment; one that it does not see is as unknown as one that never was."""
    payment_id, may_see = payment_id_of(app, payment_ref), partial(sees, caller)
    payment = await app.store.reader.payment(payment_id, may_see) if payment_id else None
    if payment is None or not may_see(payment):
        raise FlorinError(Code.PAYMENT_NOT_FOUND)
    return await current(app, payment)


def not_payable(payment: Payment) -> FlorinError:
    """Why a payment in this state takes no options, actions or results."""
    if payment.status is Status.EXPIRED:
        return FlorinError(Code.PAYMENT_EXPIRED)
    return FlorinError(Code.INVALID_STATE, f"Payment is {payment.status}")


async def merchant_of(app: App, payment: Payment) -> Merchant:
    """The payment's merchant; it is kept as long as its payments."""
    merchant = await app.store.read(merchants.merchant(payment.merchant_id))
    if merchant is None:
        raise RuntimeError(f"payment {payment.id} has no merchant")
    return merchant


async def head_of(app: App, rail: Rail) -> int:
    """A chain's head, or one that it had; RailUnavailable if it is not known.

    What the chain's settler has seen is no newer than the chain, and costs no question.
    """
    return app.settlers[rail.chain_id].head or (await rail.observer.head()).number


async def open_option(app: App, payment: Payment, option_id: str) -> Option:
    """The payment's option, if it exists and its price still holds."""
    return still_open(app, payment, await app.store.read(payments.option(payment.id, option_id)))


def still_open(app: App, payment: Payment, option: Option | None) -> Option:
    """The same of an option that was looked up."""
    if option is None:
        raise FlorinError(Code.INVALID_PARAMS, "Unknown option")
    lapsed = option.expires_at is not None and app.clock.now_us() >= option.expires_at * 1_000_000
    # with another start the operator may have left its chain out
    gone = option.chain_id not in app.rails
    if lapsed or gone or payment.trigger is Trigger.QUOTE_EXPIRED:
        raise FlorinError(Code.QUOTE_EXPIRED)
    return option


def unanswered() -> FlorinError:
    """The refusal while a chain does not answer: nothing was done, and it may be tried again."""
    return FlorinError(
        Code.INTERNAL_ERROR, "The chain does not answer", unavailable=True, retry_after_s=1
    )
