"""Finding a payment for a caller, in its present state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from florin_server.accounts.store import merchants
from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import is_payment_id_shape
from florin_server.domain.payments.links import resolve_payment_id
from florin_server.domain.payments.payment import (
    Merchant,
    Payment,
    PaymentOption,
    PaymentStatus,
)
from florin_server.domain.payments.triggers import SandboxTrigger
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.store import payments
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail, has_own_address, is_requested
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


class _HeadContext(ChainContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that find a chain's head."""


def find_payment_id(app: SettingsContext, payment_ref: str) -> str | None:
    """Return the payment id that a path segment or link names; None if it names none."""
    payment_id = resolve_payment_id(payment_ref, app.links.hosts)
    return payment_id if is_payment_id_shape(payment_id) else None


async def expire_if_due(app: _Context, payment: Payment) -> Payment:
    """Return the payment at present.

    After its time it becomes expired before any caller sees it.
    """
    now_us = app.clock.now_us()
    current_payment = payment.with_expiry(now_us)
    if current_payment.status is payment.status:
        return payment
    for changed_payment in await app.store.write(payments.expire((payment.id,), now_us)):
        return app.notifier.publish_payment(changed_payment)
    # another change was committed in between, and wins
    return await app.store.payments.find(payment.id) or current_payment


class OwnedPayment(Protocol):
    """The owner and the mode of a payment."""

    @property
    def partner_id(self) -> str:
        """Return the partner of its merchant."""

    @property
    def merchant_id(self) -> str:
        """Return its merchant."""

    @property
    def live(self) -> bool:
        """Return whether its money is real."""


def is_visible(caller: Caller, payment: OwnedPayment) -> bool:
    """Return whether a caller sees a payment: wallets see their mode's, merchants their own."""
    if payment.live is not caller.live:
        return False
    return caller.merchant is None or caller.merchant.id == payment.merchant_id


def is_of_partner(caller: Caller, payment: OwnedPayment) -> bool:
    """Return whether it is a payment of a merchant of the calling partner."""
    return is_visible(caller, payment) and payment.partner_id == caller.required_partner_id


async def get_payment(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    is_allowed: Callable[[Caller, OwnedPayment], bool] = is_visible,
) -> Payment:
    """Return the caller's payment; an invisible payment is as unknown as one that never existed."""
    payment_id, may_see = find_payment_id(app, payment_ref), partial(is_allowed, caller)
    payment = await load_payment(app, payment_id, may_see) if payment_id else None
    if payment is None:
        raise ApiError(ErrorCode.PAYMENT_NOT_FOUND)
    return payment


async def load_payment(
    app: _Context, payment_id: str, may_see: Callable[[OwnedPayment], bool] = lambda _: True
) -> Payment | None:
    """Return a payment at present, from the store or the archive, if a caller may see it.

    An invisible payment takes as many reads as one that never existed.
    """
    payment = await app.store.payments.find(payment_id, may_see)
    if payment is not None and may_see(payment):
        return await expire_if_due(app, payment)
    key = await app.archive.find_key(payment_id)
    if payment is not None or key is None or not may_see(key):
        return None
    return (await app.archive.read(key)).payment


def not_payable_error(payment: Payment) -> ApiError:
    """Return the error for a payment whose status accepts no options, actions or results."""
    if payment.status is PaymentStatus.EXPIRED:
        return ApiError(ErrorCode.PAYMENT_EXPIRED)
    return ApiError(
        ErrorCode.INVALID_STATE, f"Payment is {payment.status} and can no longer be paid"
    )


async def get_merchant(app: StorageContext, payment: Payment) -> Merchant:
    """Return the payment's merchant; it is kept as long as its payments."""
    merchant = await app.store.read(merchants.find_merchant(payment.merchant_id))
    if merchant is None:
        raise RuntimeError(f"payment {payment.id} has no merchant")
    return merchant


async def get_head(app: _HeadContext, rail: Rail) -> int:
    """Return a chain's head, or an earlier one; RailUnavailable if it is unknown.

    The head that the chain's settler has read is no newer than the chain's, and costs no node call.
    """
    head = app.settlers[rail.chain_id].head
    if not head:
        recent_head = app.chains[rail.chain_id].recent_head
        head = await recent_head.get(rail.observer, app.clock.steady_us)
    return head


async def get_open_option(app: _Context, payment: Payment, option_id: str) -> PaymentOption:
    """Return the payment's option, if it exists and its price still holds."""
    return require_open_option(
        app, payment, await app.store.read(payments.find_option(payment.id, option_id))
    )


def require_open_option(
    app: _Context, payment: Payment, option: PaymentOption | None
) -> PaymentOption:
    """Return the option if it is still open, of an option that was read before."""
    if option is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, "Unknown option")
    lapsed = option.expires_at is not None and app.clock.now_us() >= option.expires_at * 1_000_000
    # at another start the operator may have removed its chain
    rail = app.rails.get(option.chain_id)
    gone = rail is None
    if has_own_address(option) or (rail is not None and is_requested(rail, option)):
        # only its transaction on chain ends it: nothing that a caller sends proves anything
        raise ApiError(ErrorCode.INVALID_PARAMS, "Unknown option")
    if lapsed or gone or payment.trigger is SandboxTrigger.QUOTE_EXPIRED:
        raise ApiError(ErrorCode.QUOTE_EXPIRED)
    return option


def chain_unavailable_error() -> ApiError:
    """Return the error while a chain does not answer: nothing was done, and a retry can work."""
    return ApiError(
        ErrorCode.INTERNAL_ERROR,
        "The chain does not answer: try again",
        unavailable=True,
        retry_after_s=1,
    )
