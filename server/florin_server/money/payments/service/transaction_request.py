"""A wallet fetches the transaction that pays a payment by its link alone (Solana Pay).

The wallet signs the transaction and sends it to the chain, and nothing to Florin. The payment
succeeds once the chain shows it as final.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.accounts.service.wallets import create_checkout_caller
from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.buyer_data.service.requirement import is_required_with
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.load import (
    chain_unavailable_error,
    not_payable_error,
)
from florin_server.money.payments.service.options import list_options
from florin_server.money.payments.service.price import find_price
from florin_server.money.payments.service.ways import describe_obstacle
from florin_server.money.payments.store import watched_addresses
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable, ReceiverUnavailable
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


class _PriceContext(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that the acceptance of a payment needs."""


class _OfferContext(_PriceContext, WorkerContext, Protocol):
    """The parts of the application that an offer needs."""


# A transaction needs time to be read, approved and final: one that is fetched later would mostly be
# late, and its money had to be returned.
_LAST_S: Final = 15
# money can arrive later than its payment's end, and is returned then
_WATCH_LATE_S: Final = 3600
_ADDRESS_CHARS_MAX: Final = 64
_RETRY_S: Final = 60


@dataclass(frozen=True, slots=True)
class RequestedTransaction:
    """A transaction to sign and send, in the form that wallets read, and the option it pays."""

    option: PaymentOption
    transaction: str


def accepts_requests(app: _PriceContext, payment: Payment) -> bool:
    """Return whether wallets can fetch a transaction for a payment, as far as is known here.

    An account can lack what is accepted, and a receiver can be unable to take it. Wallets cannot
    give data about the buyer this way.
    """
    return any(_accepts_requests(app, payment, rail) for rail in app.rails.values())


def is_offered(app: _OfferContext, payment: Payment) -> bool:
    """Return whether buyers can be shown the link now: a chain that accepts it also settles."""
    return any(
        _accepts_requests(app, payment, rail) and not describe_obstacle(app, rail)
        for rail in app.rails.values()
    )


def _accepts_requests(app: _PriceContext, payment: Payment, rail: Rail) -> bool:
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return False
    if rail.live is not payment.live or rail.transaction_requests is None:
        return False
    return any(
        find_price(app, payment, asset) is not None and not is_required_with(app, payment, asset.id)
        for asset in rail.assets.values()
    )


def require_acceptance(app: _PriceContext, payment: Payment) -> None:
    """Raise ApiError unless wallets can fetch a transaction for a payment now."""
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        raise not_payable_error(payment)
    if not accepts_requests(app, payment):
        text = "Payment cannot be paid on Solana by this link: open its payment link instead"
        raise ApiError(ErrorCode.INVALID_STATE, text)


async def request_transaction(
    app: _Context, payment: Payment, address: str, network: str
) -> RequestedTransaction:
    """Return the transaction with which an account pays a payment; ApiError if it cannot.

    `address` is as the wallet wrote it, `network` the network of the call, as limits count
    addresses. Of what the account can pay with, it is what the merchant prefers.
    """
    require_acceptance(app, payment)
    now_us = app.clock.now_us()
    if payment.expires_at * 1_000_000 - now_us < _LAST_S * 1_000_000:
        raise ApiError(ErrorCode.PAYMENT_EXPIRED, "Payment expires too soon to be paid this way")
    accounts = [
        account
        for rail in app.rails.values()
        if rail.live is payment.live and rail.transaction_requests is not None
        if len(address) <= _ADDRESS_CHARS_MAX
        if (account := rail.find_payer(f"{rail.chain_id}:{address}")) is not None
    ]
    if not accounts:
        raise ApiError(ErrorCode.PARAMS_VALIDATION, "Account is not a wallet's address on Solana")
    caller = await create_checkout_caller(
        app, live=payment.live, network=network, use="transaction request"
    )
    listed = await list_options(app, caller, payment.id, accounts, is_requested=True)
    if not listed.options:
        raise ApiError(
            ErrorCode.INVALID_PARAMS,
            "The account cannot pay: it holds too little of what this payment accepts, or the "
            "merchant cannot receive it yet",
            details={"reason": "insufficient_funds"},
        )
    (option,) = listed.options
    return RequestedTransaction(option, await _build(app, caller, payment, option))


async def _build(app: _Context, caller: Caller, payment: Payment, option: PaymentOption) -> str:
    rail = app.rails[option.chain_id]
    requests = rail.transaction_requests
    if requests is None:
        raise RuntimeError(f"{rail.chain_id} offers no transaction requests")
    # stored before a wallet can send anything
    watch = watched_addresses.watch(
        rail.chain_id,
        payment.id,
        requests.get_address(payment),
        payment.expires_at + _WATCH_LATE_S,
        app.clock.now_us(),
    )
    active_watch = credential_checks.run_if_active(caller.credential_status, watch)
    if not await app.store.write(active_watch):
        text = "An upgrade is not finished: try again in a minute, or use the payment link"
        raise ApiError(ErrorCode.INTERNAL_ERROR, text, unavailable=True, retry_after_s=_RETRY_S)
    try:
        return await requests.build_transaction(payment, option)
    except ReceiverUnavailable as error:
        raise ApiError(
            ErrorCode.INTERNAL_ERROR, str(error), unavailable=True, retry_after_s=_RETRY_S
        ) from error
    except RailUnavailable as error:
        raise chain_unavailable_error() from error
