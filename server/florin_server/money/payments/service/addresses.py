"""Addresses of their own for payments, to which any wallet or exchange can send.

An address is given out on demand, one for each asset. It is an option whose payer is the address
itself: what is forwarded from there proves the payment like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Final, Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.buyer_data.service.requirement import is_required_with
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists, is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.domain.payments.triggers import SandboxTrigger
from florin_server.domain.settlement.settle_times import round_promise
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service import conversion, relayer_funds
from florin_server.money.payments.service.load import (
    chain_unavailable_error,
    get_head,
    get_payment,
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
from florin_server.money.payments.store import deposit_addresses
from florin_server.money.payments.store.deposit_addresses import (
    AddressQuota,
    AddressRefusal,
    DepositAddress,
    OpenedAddress,
)
from florin_server.operations.context import WorkerContext
from florin_server.rails.address_roles import PaymentAddresses
from florin_server.rails.context import ChainContext
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset, PayableAsset, RailUnavailable, Split
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
    """The parts of the application that the list of assets needs."""


ADDRESSES_MAX: Final = 8
# money needs time to be sent, seen and forwarded: what comes later would mostly be late
_LAST_S: Final = 60
# money can arrive later than that, and is returned then
_WATCH_LATE_S: Final = 3600
# so that no merchant uses up the addresses of the others
_MERCHANT_DIVISOR: Final = 2
_RETRY_S: Final = 60


@dataclass(frozen=True, slots=True)
class PaymentAddress:
    """An address of a payment, with its option and the smallest payment that gets one."""

    opened: OpenedAddress
    min_value: int


@dataclass(frozen=True, slots=True)
class _Terms:
    """The chain, price and fixed fee of an asset that can have an address."""

    rail: Rail
    addresses: PaymentAddresses
    asset: Asset
    price: AssetPrice
    fee_fixed: int


def list_address_assets(app: _PriceContext, payment: Payment) -> list[Asset]:
    """Return the assets that can pay a payment at an address, as far as is known here."""
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return []
    return [
        asset
        for rail in app.rails.values()
        if rail.live is payment.live and rail.addresses is not None
        for asset in rail.assets.values()
        if find_price(app, payment, asset) is not None
        and not is_required_with(app, payment, asset.id)
    ]


def has_unread_chain(app: _PriceContext, payment: Payment) -> bool:
    """Return True if a chain with addresses was not read since the start: its assets are unknown.

    What is refused for want of an asset can work once that chain answers.
    """
    return any(
        rail.live is payment.live and rail.addresses is not None and not rail.assets
        for rail in app.rails.values()
    )


async def open_addresses(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    assets: Sequence[str],
    refund_account: str | None = None,
) -> list[PaymentAddress]:
    """Return an address for each asset (CAIP-19), which is watched from now on.

    The same asset has the same address, as long as its price holds. Money that comes back goes to
    `refund_account` (CAIP-10), if the buyer names one before the address exists. ApiError if one of
    the assets can have none.
    """
    payment = await get_payment(app, caller, payment_ref)
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        raise not_payable_error(payment)
    if payment.trigger is SandboxTrigger.BLOCKED:
        raise ApiError(ErrorCode.SANCTIONED_USER)
    app.limits.count_options(payment.id, caller.origin)
    app.limits.count_address(payment.id)
    refund_account = await _parse_refund_account(app, payment, refund_account)
    await check_lists(app, live=payment.live)
    if len(set(assets)) != len(assets):
        raise validation_error("assets", "Names an asset twice")
    terms = [_find_terms(app, payment, asset) for asset in assets]
    existing = await app.store.read(deposit_addresses.list_opened(payment.id))
    return [await _open(app, caller, payment, item, existing, refund_account) for item in terms]


async def _parse_refund_account(
    app: _Context, payment: Payment, refund_account: str | None
) -> str | None:
    if refund_account is None:
        return None
    try:
        account = canonicalize_account(refund_account)
    except ValueError as error:
        raise validation_error("refundAccount", str(error)) from error
    rail = app.rails.get(account.rpartition(":")[0])
    if rail is None or rail.live is not payment.live or rail.find_payer(account) is None:
        raise validation_error("refundAccount", "Is no account of a buyer on a supported chain")
    if await is_blocked(app, account):
        raise ApiError(ErrorCode.SANCTIONED_USER)
    return account


def _find_terms(app: _Context, payment: Payment, asset_id: str) -> _Terms:
    """Return the terms of an asset; ApiError if it can have no address."""
    try:
        key = normalize_asset(asset_id)
    except ValueError as error:
        raise validation_error("assets", str(error)) from error
    for rail in app.rails.values():
        if rail.live is not payment.live or rail.addresses is None:
            continue
        if not rail.assets and key in map(normalize_asset, rail.pegs):
            # unread since the start: a refusal would last, and this does not
            raise chain_unavailable_error()
        for asset in rail.assets.values():
            if normalize_asset(asset.id) != key:
                continue
            price = find_price(app, payment, asset)
            fee_fixed = conversion.find_fixed_fee(app, payment, asset)
            # an unknown fee is not 0
            if price is None or fee_fixed is None:
                break
            if is_required_with(app, payment, asset.id):
                text = "Payment needs data about the buyer: open its payment link instead"
                raise ApiError(ErrorCode.INVALID_STATE, text)
            return _Terms(rail, rail.addresses, asset, price, fee_fixed)
    usable = ", ".join(asset.id for asset in list_address_assets(app, payment)) or "none"
    text = f"Asset {asset_id[:100]} cannot pay this payment at an address; these can: {usable}"
    raise ApiError(ErrorCode.INVALID_PARAMS, text, details={"reason": "asset_unavailable"})


async def _open(  # noqa: PLR0917  (one of each, none alike)
    app: _Context,
    caller: Caller,
    payment: Payment,
    terms: _Terms,
    existing: Sequence[OpenedAddress],
    refund_account: str | None,
) -> PaymentAddress:
    min_value = await _find_minimum(app, payment, terms)
    if (opened := _find_open(app, payment, terms, existing)) is not None:
        return PaymentAddress(opened, min_value)
    now_us = app.clock.now_us()
    if payment.expires_at * 1_000_000 - now_us < _LAST_S * 1_000_000:
        raise ApiError(ErrorCode.PAYMENT_EXPIRED, "Payment expires too soon to be paid this way")
    if terms.price.value < min_value:
        text = f"Payment is too small for an address: {terms.asset.symbol} {terms.asset.id}"
        details = {
            "reason": "too_small",
            "unit": f"caip19/{terms.asset.id}",
            "minAmount": str(min_value),
        }
        raise ApiError(ErrorCode.INVALID_PARAMS, text, details=details)
    await _require_chain(app, terms.rail)
    option = await _build_option(app, payment, terms)
    row = DepositAddress(
        chain_id=option.chain_id,
        address=option.payer.rpartition(":")[2],
        payment_id=payment.id,
        option_id=option.id,
        merchant_id=payment.merchant_id,
        asset=option.asset,
        refund_account=refund_account,
        from_block=option.first_block(terms.rail.reorg_depth, 0),
        opened_at_us=now_us,
        until_s=(terms.rail.terms.find_last_second(option) or payment.expires_at) + _WATCH_LATE_S,
    )
    per_chain = terms.addresses.watched_max
    quota = AddressQuota(ADDRESSES_MAX, per_chain, max(1, per_chain // _MERCHANT_DIVISOR))
    work = deposit_addresses.open_address(row, option, quota, now_us)
    # stored before a buyer can send anything
    refusal = await app.store.write(credential_checks.run_if_active(caller.credential_status, work))
    if refusal is not None:
        raise _to_error(refusal)
    return PaymentAddress(OpenedAddress(row, option), min_value)


def _find_open(
    app: _Context, payment: Payment, terms: _Terms, existing: Sequence[OpenedAddress]
) -> OpenedAddress | None:
    """Return the asset's address, if its price holds for long enough."""
    last_us = app.clock.now_us() + _LAST_S * 1_000_000
    for opened in reversed(existing):
        option = opened.option
        end = min(option.expires_at or payment.expires_at, payment.expires_at)
        if option.asset == terms.asset.id and end * 1_000_000 >= last_us:
            return opened
    return None


def _to_error(refusal: AddressRefusal) -> ApiError:
    match refusal:
        case AddressRefusal.PAYMENT:
            text = f"A payment can have at most {ADDRESSES_MAX} addresses"
            return ApiError(ErrorCode.INVALID_STATE, text)
        case AddressRefusal.UPGRADE:
            text = "An upgrade is not finished: try again in a minute, or use the payment link"
            return ApiError(
                ErrorCode.INTERNAL_ERROR, text, unavailable=True, retry_after_s=_RETRY_S
            )
        case _:
            text = "Too many addresses are open: try again later, or use the payment link"
            return ApiError(ErrorCode.RATE_LIMITED, text, retry_after_s=_RETRY_S)


async def _require_chain(app: _Context, rail: Rail) -> None:
    """Raise ApiError if nothing can be forwarded on a chain now."""
    if describe_obstacle(app, rail) or await relayer_funds.describe_problem(app, rail):
        raise chain_unavailable_error()


async def _build_option(app: _Context, payment: Payment, terms: _Terms) -> PaymentOption:
    rail, asset, price = terms.rail, terms.asset, terms.price
    accounts = await read_destinations(app, payment.merchant_id)
    split = compute_split(app, rail, asset.id, price.value, terms.fee_fixed, accounts)
    now_us = app.clock.now_us()
    quote = build_quote(app, payment, price, now_us)
    payable = PayableAsset("", asset.id)
    offer = OptionOffer(payment, "", payable, asset, price.value, split, now_us, quote)
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            head = await get_head(app, rail)
            home = Split(terms.addresses.home, None, 0, settled=False)
            obstacles = await asyncio.gather(
                find_receiver_obstacle(app, rail, asset, price.value, split),
                # what is not the payment's could not leave the address
                find_receiver_obstacle(app, rail, asset, price.value, home),
            )
    except (RailUnavailable, TimeoutError) as error:
        raise chain_unavailable_error() from error
    if obstacle := next(filter(None, obstacles), None):
        text = f"{asset.symbol} cannot be paid at an address now: {obstacle}"
        raise ApiError(ErrorCode.INVALID_STATE, text)
    option = terms.addresses.build_option(offer)
    promised_s = app.chains[rail.chain_id].get_promised_s(option.eta_s, rail.eta_s)
    return replace(
        option,
        eta_s=round_promise(promised_s + rail.extra_wait_s(option.asset, option.value)),
        fee=split.fee,
        fee_fixed=min(terms.fee_fixed, split.fee),
        fee_basis_points=app.settings.fee_basis_points,
        head=head,
    )


async def _find_minimum(app: _Context, payment: Payment, terms: _Terms) -> int:
    """Return the smallest payment that gets an address, in minor units of the asset.

    The cost of forwarding counts as far as the coin's price is known.
    """
    least = max(1, terms.addresses.get_min_units(terms.asset))
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            cost = await terms.addresses.estimate_cost()
    except (RailUnavailable, TimeoutError) as error:
        raise chain_unavailable_error() from error
    worth = _convert(app, payment, terms, cost)
    if worth is None:
        return least
    units: int = 10**terms.asset.decimals
    return max(least, ceil(worth * units))


def _convert(app: _Context, payment: Payment, terms: _Terms, cost: Fraction) -> Fraction | None:
    """Convert whole units of the asset that pays for gas to those of the terms' asset."""
    native, asset = terms.rail.native_asset, terms.asset
    if asset.id == native:
        return cost
    kind, _, code = payment.unit.partition("/")
    currency = code if kind == "iso4217" else asset.peg
    if currency is None:
        return None
    native_price = _find_price(app, native, terms.rail.pegs.get(native), currency)
    asset_price = _find_price(app, asset.id, asset.peg, currency)
    if native_price is None or asset_price is None:
        return None
    return cost * native_price / asset_price


def _find_price(app: _Context, asset: str, peg: str | None, currency: str) -> Fraction | None:
    if peg == currency:
        return Fraction(1)
    rate = app.prices.find_rate(asset, currency, app.clock.now_us())
    return None if rate is None else Fraction(rate.price)
