"""Transfers of a payment's whole price to its merchant, by links of Solana Pay and by x402.

The buyer's wallet or program makes the transaction. The money has one receiver, so the merchant
needs an account of its own. It owes the fee, if there is one and the operator lets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.buyer_data.service.requirement import is_required_with
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    Merchant,
    Payment,
    PaymentOption,
    PaymentStatus,
)
from florin_server.domain.payments.triggers import SandboxTrigger
from florin_server.domain.settlement.settle_times import round_promise
from florin_server.limits.context import LimitContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service import conversion
from florin_server.money.payments.service.load import (
    chain_unavailable_error,
    get_head,
    not_payable_error,
)
from florin_server.money.payments.service.price import AssetPrice, build_quote, find_price
from florin_server.money.payments.service.receivers import (
    compute_split,
    find_receiver_obstacle,
    normalize_asset,
    read_destinations,
)
from florin_server.money.payments.service.ways import describe_obstacle
from florin_server.money.payments.store import offered_transfers, payments
from florin_server.money.payments.store.deposit_addresses import DepositAddress
from florin_server.money.payouts.service.credit import has_credit_for
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.protocol import Rail
from florin_server.rails.transfers import TransferRequests
from florin_server.rails.types import Asset, PayableAsset, RailUnavailable, Split
from florin_server.settings.context import SettingsContext


class _Context(
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


class _OfferContext(ChainContext, SettingsContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that the list of assets needs."""


# A transfer needs time to be approved, sent and final. What comes later cannot be taken back: it is
# the merchant's.
_LAST_S: Final = 60
_WATCH_LATE_S: Final = 3600
_RETRY_S: Final = 60


@dataclass(frozen=True, slots=True)
class TransferLink:
    """A link, and the option of which it consists."""

    option: PaymentOption
    uri: str


@dataclass(frozen=True, slots=True)
class TransferAsset:
    """An asset that can be transferred, at its price in minor units."""

    asset: Asset
    value: int


@dataclass(frozen=True, slots=True)
class _Terms:
    """An asset with its rail, price, fixed fee in minor units, and receiver."""

    rail: Rail
    transfers: TransferRequests
    asset: Asset
    price: AssetPrice
    fixed_fee: int
    split: Split


async def list_transfer_assets(app: _OfferContext, payment: Payment) -> list[TransferAsset]:
    """Return the assets that can pay a payment by a transfer, as far as is known here."""
    return [
        TransferAsset(terms.asset, terms.price.value)
        for terms in await _list_terms(app, payment)
        if not describe_obstacle(app, terms.rail)
    ]


async def has_unread_transfers(app: _OfferContext, payment: Payment) -> bool:
    """Return True if a chain of the merchant was not read since the start: its assets are unknown.

    What is refused for want of an asset can work once that chain answers.
    """
    chains = [
        f"{rail.chain_id}/"
        for rail in app.rails.values()
        if rail.live is payment.live and rail.transfer_requests is not None and not rail.assets
    ]
    takes_fee = app.settings.fee_basis_points or app.settings.fee_fixed
    if not chains or (takes_fee and not app.settings.owed_fees):
        return False
    accounts = await read_destinations(app, payment.merchant_id)
    return any(asset.startswith(tuple(chains)) for asset in accounts)


async def open_link(
    app: _Context, caller: Caller, payment: Payment, merchant: Merchant, asset: str | None
) -> TransferLink:
    """Return the link for an asset (CAIP-19), whose transfers are looked for from now on.

    Without an asset it is the first that the payment accepts. ApiError if there can be no link.
    """
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        raise not_payable_error(payment)
    if payment.trigger is SandboxTrigger.BLOCKED:
        raise ApiError(ErrorCode.SANCTIONED_USER)
    app.limits.count_options(payment.id, caller.origin)
    app.limits.count_transaction_request(payment.id)
    await check_lists(app, live=payment.live)
    terms = _select(await _list_terms(app, payment), asset)
    option = await _find_open(app, payment, terms)
    if option is None:
        option = await _create_option(app, payment, terms)
    await _require_found_by_wallets(app, terms, option)
    await _watch(app, caller, payment, terms, option)
    return TransferLink(option, terms.transfers.format_uri(option, merchant.name))


async def open_transfer(
    app: _Context, caller: Caller, payment: Payment, asset: str
) -> PaymentOption:
    """Return the option by which programs transfer an asset (CAIP-19), without a sender.

    Transactions are recognized by a note, the address in the option's account. ApiError if the
    asset cannot be transferred.
    """
    if payment.trigger is SandboxTrigger.BLOCKED:
        raise ApiError(ErrorCode.SANCTIONED_USER)
    terms = _select(await _list_terms(app, payment), asset)
    option = await _find_open(app, payment, terms)
    if option is None:
        # programs ask again and again while they wait
        app.limits.count_options(payment.id, caller.origin)
        app.limits.count_transaction_request(payment.id)
        await check_lists(app, live=payment.live)
        option = await _create_option(app, payment, terms)
        await _watch(app, caller, payment, terms, option)
    return option


async def _create_option(app: _Context, payment: Payment, terms: _Terms) -> PaymentOption:
    if payment.expires_at * 1_000_000 - app.clock.now_us() < _LAST_S * 1_000_000:
        text = "Payment expires too soon to be paid this way"
        raise ApiError(ErrorCode.PAYMENT_EXPIRED, text)
    return await _build_option(app, payment, terms)


async def _watch(
    app: _Context, caller: Caller, payment: Payment, terms: _Terms, option: PaymentOption
) -> None:
    """Store an option, and look for its transfers from now on."""
    now_us = app.clock.now_us()
    row = DepositAddress(
        chain_id=option.chain_id,
        address=option.payer.rpartition(":")[2],
        payment_id=payment.id,
        option_id=option.id,
        merchant_id=payment.merchant_id,
        asset=option.asset,
        refund_account=None,
        from_block=option.first_block(terms.rail.reorg_depth, 0),
        opened_at_us=now_us,
        until_s=payment.expires_at + _WATCH_LATE_S,
    )
    # stored before a buyer can send anything
    work = offered_transfers.add_link(row, option, now_us)
    if not await app.store.write(credential_checks.run_if_active(caller.credential_status, work)):
        text = "Too many links of this payment, or an upgrade is not finished: try again later"
        raise ApiError(ErrorCode.INTERNAL_ERROR, text, unavailable=True, retry_after_s=_RETRY_S)


async def find_link(
    app: _Context, payment: Payment, merchant: Merchant, asset: str
) -> TransferLink | None:
    """Return the link that was opened for an asset (CAIP-19), if its price holds; else None."""
    for terms in await _list_terms(app, payment):
        if terms.asset.id == asset:
            option = await _find_open(app, payment, terms)
            if option is not None:
                return TransferLink(option, terms.transfers.format_uri(option, merchant.name))
    return None


async def _list_terms(app: _OfferContext, payment: Payment) -> list[_Terms]:
    """Return what a payment can be transferred in, the merchant's settlement assets only."""
    settings = app.settings
    if payment.status is not PaymentStatus.REQUIRES_ACTION or (
        settings.fee_basis_points and not settings.owed_fees
    ):
        return []
    rails = [rail for rail in app.rails.values() if rail.live is payment.live]
    if not any(rail.transfer_requests for rail in rails):
        return []
    accounts = await read_destinations(app, payment.merchant_id)
    return [
        _Terms(rail, rail.transfer_requests, asset, price, fixed_fee, split)
        for rail in rails
        if rail.transfer_requests is not None
        for asset in rail.assets.values()
        # the treasury would receive it for the merchant, and with it what others send wrongly
        if normalize_asset(asset.id) in accounts
        and (price := find_price(app, payment, asset)) is not None
        # an unknown fee is not 0
        and (fixed_fee := conversion.find_fixed_fee(app, payment, asset)) is not None
        and not is_required_with(app, payment, asset.id)
        and (split := _find_split(app, rail, asset, price, fixed_fee, accounts)) is not None
    ]


def _find_split(  # noqa: PLR0917  (one of each, none alike)
    app: SettingsContext,
    rail: Rail,
    asset: Asset,
    price: AssetPrice,
    fixed_fee: int,
    accounts: Mapping[str, str],
) -> Split | None:
    """Return the split of a price that the merchant receives whole; None if it must not owe."""
    split = compute_split(app, rail, asset.id, price.value, fixed_fee, accounts)
    if split.fee and not app.settings.owed_fees:
        return None
    return replace(split, fee=0, fee_to=None, owed_fee=split.fee)


def _select(terms: list[_Terms], asset: str | None) -> _Terms:
    for item in terms:
        if asset is None or item.asset.id == asset:
            return item
    usable = ", ".join(item.asset.id for item in terms) or "none"
    raise ApiError(
        ErrorCode.INVALID_STATE,
        f"Payment cannot be paid by a transfer of this asset; these can be transferred: {usable}",
    )


async def _find_open(app: _Context, payment: Payment, terms: _Terms) -> PaymentOption | None:
    """Return the option of the asset's link, if its price holds for long enough."""
    account = terms.transfers.get_account(payment)
    last_us = app.clock.now_us() + _LAST_S * 1_000_000
    for option in reversed(await app.store.read(payments.list_options(payment.id, [account]))):
        end = min(option.expires_at or payment.expires_at, payment.expires_at)
        if option.asset == terms.asset.id and end * 1_000_000 >= last_us:
            return option
    return None


async def _build_option(app: _Context, payment: Payment, terms: _Terms) -> PaymentOption:
    rail, asset, price = terms.rail, terms.asset, terms.price
    if describe_obstacle(app, rail):
        raise chain_unavailable_error()
    split = terms.split
    if split.owed_fee and not await has_credit_for(
        app, payment.merchant_id, asset.id, split.owed_fee, live=payment.live
    ):
        text = "The merchant owes fees, and its balance and credit do not cover another one"
        raise ApiError(ErrorCode.INVALID_STATE, text)
    now_us = app.clock.now_us()
    quote = build_quote(app, payment, price, now_us)
    offer = OptionOffer(
        payment, "", PayableAsset("", asset.id), asset, price.value, split, now_us, quote
    )
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            head = await get_head(app, rail)
            # a wallet opens no account for the merchant
            obstacle = await find_receiver_obstacle(app, rail, asset, price.value, split)
    except (RailUnavailable, TimeoutError) as error:
        raise chain_unavailable_error() from error
    _require_none(asset, obstacle)
    option = terms.transfers.build_option(offer)
    promised_s = app.chains[rail.chain_id].get_promised_s(option.eta_s, rail.eta_s)
    return replace(
        option,
        eta_s=round_promise(promised_s + rail.extra_wait_s(option.asset, option.value)),
        fee=split.owed_fee,
        fee_fixed=min(terms.fixed_fee, split.owed_fee),
        fee_basis_points=app.settings.fee_basis_points,
        head=head,
    )


async def _require_found_by_wallets(app: _Context, terms: _Terms, option: PaymentOption) -> None:
    """Raise ApiError if wallets would refuse the merchant; programs do not look."""
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            obstacle = await terms.transfers.find_obstacle(option)
    except (RailUnavailable, TimeoutError) as error:
        raise chain_unavailable_error() from error
    _require_none(terms.asset, obstacle)


def _require_none(asset: Asset, obstacle: str | None) -> None:
    if obstacle:
        text = f"{asset.symbol} cannot be transferred now: {obstacle}"
        raise ApiError(ErrorCode.INVALID_STATE, text)
