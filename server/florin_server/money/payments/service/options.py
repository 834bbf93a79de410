"""A wallet asks what its accounts can pay with."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias

from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.buyer_data.service import requirement
from florin_server.compliance.buyer_data.service.requirement import DataRequirement
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import check_lists, is_blocked
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.domain.payments.triggers import SandboxTrigger
from florin_server.domain.settlement.settle_times import round_promise
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service import conversion, funding, relayer_funds
from florin_server.money.payments.service.load import find_payment_id, get_head, get_payment
from florin_server.money.payments.service.price import AssetPrice, find_price
from florin_server.money.payments.service.receivers import (
    compute_split,
    find_receiver_obstacle,
    normalize_asset,
    read_destinations,
)
from florin_server.money.payments.service.ways import describe_obstacle
from florin_server.money.payments.store import new_options, payments
from florin_server.money.payouts.service.account_opening import (
    list_openable,
    list_receiving_accounts,
)
from florin_server.money.settlement import service as gas_budgets
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.pricing.prices import PriceQuote
from florin_server.rails.protocol import Rail
from florin_server.rails.types import (
    Asset,
    PayableAsset,
    RailUnavailable,
    Split,
)
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


# payer, asset, value
_QuoteKey: TypeAlias = tuple[str, str, int]

_log = logging.getLogger(__name__)

# time frees no room; a caller that returns asks for accounts that have options
_FULL_RETRY_S = 60

_NO_REQUIREMENT = DataRequirement({})


@dataclass(frozen=True, slots=True)
class PaymentOptions:
    """The options of the accounts; `payment` is None for text that names no payment.

    `data_requirement` says which options wait for data about the buyer.
    """

    payment: Payment | None
    options: tuple[PaymentOption, ...]
    data_requirement: DataRequirement = _NO_REQUIREMENT


@dataclass(frozen=True, slots=True)
class _SearchContext:
    """The merchant's destinations, the stored options by id, and the expiries of earlier quotes.

    `is_requested` is true for options whose transaction the wallet fetches by a link.
    """

    destinations: Mapping[str, str]
    stored_options: Mapping[str, PaymentOption]
    quote_expiries: Mapping[_QuoteKey, int]
    is_requested: bool


class _Candidate(NamedTuple):
    """An option that can be paid now, stored or new; `account` is as the caller wrote it now.

    `eta_s` is the present promise; a stored option keeps that of its first offer.
    """

    option: PaymentOption
    account: str
    eta_s: int


async def list_options(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    accounts: Sequence[str],
    *,
    is_requested: bool = False,
) -> PaymentOptions:
    """List the options of a payment for the given accounts, best first.

    Text without the shape of a payment id has none (deployed profile: it is unknown). A payment
    that is no longer payable has none either; an expired payment is refused, and so is a call with
    a blocked account among its accounts. ApiError(rate_limited) if no option is stored for the
    accounts and there is no room for more. With `is_requested` it is the best option whose
    transaction a wallet fetches by a link.
    """
    if find_payment_id(app, payment_ref) is None and not caller.wcp_profile:
        return PaymentOptions(None, ())
    payment = await get_payment(app, caller, payment_ref)
    if payment.status is PaymentStatus.EXPIRED:
        raise ApiError(ErrorCode.PAYMENT_EXPIRED)
    if payment.status is not PaymentStatus.REQUIRES_ACTION:
        return PaymentOptions(payment, ())
    if payment.trigger is SandboxTrigger.BLOCKED:
        raise ApiError(ErrorCode.SANCTIONED_USER)
    if payment.trigger is SandboxTrigger.NO_OPTIONS:
        return PaymentOptions(payment, ())
    app.limits.count_options(payment.id, caller.origin)
    if is_requested:
        # a caller above its own limit does not use up that of all callers
        app.limits.count_transaction_request(payment.id)
    await _check_accounts(app, payment, accounts)
    places = await read_destinations(app, payment.merchant_id)
    accounts_by_rail = _group_by_rail(app, payment, accounts)
    payers = [payer for _, accounts_by_payer in accounts_by_rail for payer in accounts_by_payer]
    stored_options = await app.store.read(payments.list_options(payment.id, payers))
    existing = {option.id: option for option in stored_options}
    quote_expiries = _get_quote_expiries(app, stored_options)
    context = _SearchContext(places, existing, quote_expiries, is_requested)
    searches = [
        _search_rail(app, caller, payment, rail, accounts_by_payer, context)
        for rail, accounts_by_payer in accounts_by_rail
    ]
    candidates = [candidate for part in await asyncio.gather(*searches) for candidate in part]
    candidates.sort(key=lambda each: (normalize_asset(each.option.asset) not in places, each.eta_s))
    candidates = _select_candidates(app, payment, candidates, is_requested=is_requested)
    stored = await _store_options(app, caller, payment, existing, candidates)
    reported_options = [
        _with_account(stored[candidate.option.id], candidate.account)
        for candidate in candidates
        if candidate.option.id in stored
    ]
    if candidates and not reported_options:
        text = "Too many options of this payment are stored: try again later with fewer accounts"
        raise ApiError(ErrorCode.RATE_LIMITED, text, retry_after_s=_FULL_RETRY_S)
    data_requirement = await requirement.request_data(app, caller, payment, reported_options)
    for at, option in enumerate(reported_options):
        if option.id in data_requirement.urls:
            reported_options[at] = replace(
                option, actions=(requirement.get_placeholder_build(payment, option),)
            )
    return PaymentOptions(payment, tuple(reported_options), data_requirement)


async def _check_accounts(app: _Context, payment: Payment, accounts: Sequence[str]) -> None:
    """Raise ApiError(sanctioned_user) if an account is blocked, or as for outdated lists."""
    for account in accounts[: app.settings.accounts_max]:
        if await is_blocked(app, account):
            raise ApiError(ErrorCode.SANCTIONED_USER)
    await check_lists(app, live=payment.live)


def _select_candidates(
    app: SettingsContext, payment: Payment, candidates: list[_Candidate], *, is_requested: bool
) -> list[_Candidate]:
    """Return as many options as are reported; of requested ones the best that needs no data."""
    if not is_requested:
        return candidates[: app.settings.options_max]
    # others would use up the quota
    free = (each for each in candidates if not requirement.is_required(app, payment, each.option))
    return list(islice(free, 1))


def _with_account(option: PaymentOption, account: str) -> PaymentOption:
    """Return a stored option with the account as the caller wrote it now."""
    return option if option.account == account else replace(option, account=account)


async def _store_options(
    app: _Context,
    caller: Caller,
    payment: Payment,
    existing: Mapping[str, PaymentOption],
    candidates: Sequence[_Candidate],
) -> Mapping[str, PaymentOption]:
    """Store new options, as many as there is room for; return all stored ones by id."""
    new = [option for option, _, _ in candidates if option.id not in existing]
    if not new:
        return existing
    # stored data reveals no network address
    origin = hashlib.sha256(payment.salt + b"origin" + caller.origin.encode()).hexdigest()[:32]
    room = new_options.OptionQuota(
        app.settings.options_per_caller, app.settings.options_per_payment
    )
    offered = await app.store.write(new_options.add(payment.id, origin, new, room))
    return {**existing, **{option.id: option for option in offered}}


def _group_by_rail(
    app: _Context, payment: Payment, accounts: Sequence[str]
) -> list[tuple[Rail, dict[str, str]]]:
    """Sort the accounts by rail, as {canonical: as written}; skip all others."""
    rails = [rail for rail in app.rails.values() if rail.live is payment.live]
    accounts_by_rail: list[tuple[Rail, dict[str, str]]] = [(rail, {}) for rail in rails]
    for account in accounts[: app.settings.accounts_max]:
        for rail, accounts_by_payer in accounts_by_rail:
            if (payer := rail.find_payer(account)) is not None:
                accounts_by_payer.setdefault(payer, account)
                break
    return [
        (rail, accounts_by_payer)
        for rail, accounts_by_payer in accounts_by_rail
        if accounts_by_payer
    ]


async def _search_rail(  # noqa: PLR0917  (one of each, none alike)
    app: _Context,
    caller: Caller,
    payment: Payment,
    rail: Rail,
    accounts_by_payer: Mapping[str, str],
    context: _SearchContext,
) -> list[_Candidate]:
    if problem := await _find_chain_problem(app, rail, is_requested=context.is_requested):
        # its signature could lapse before the chain recovers
        _log.warning("chain %s is left out of options: %s", rail.chain_id, problem)
        return []
    # one read of the registry: a check can remove an asset while the chain is called
    assets = rail.assets
    costs = {
        asset.id: cost for asset in assets.values() if (cost := find_price(app, payment, asset))
    }
    fixed = _list_fixed_fees(app, payment, [assets[each_cost] for each_cost in costs])
    prices = {asset: cost.value for asset, cost in costs.items() if asset in fixed}
    if not prices:
        return []
    method = _get_requested_method(rail) if context.is_requested else None
    by_hand = await _list_manual_payers(app, caller, rail, accounts_by_payer, method)
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            head = await get_head(app, rail)
            payable = await funding.list_payables(rail, list(accounts_by_payer), prices, by_hand)
            splits = {
                asset_id: compute_split(
                    app, rail, asset_id, prices[asset_id], fixed[asset_id], context.destinations
                )
                for asset_id in {means.asset for means in payable}
            }
            asset_accounts = [
                place
                for asset_id, split in splits.items()
                for place in list_receiving_accounts(asset_id, split)
            ]
            may_open = await _list_openable(app, rail, payment, asset_accounts, method)
            refused = await _list_refused_assets(app, payment, rail, prices, splits, may_open)
    except (RailUnavailable, TimeoutError) as error:
        _log.warning("chain %s is left out of options: %s", rail.chain_id, error)
        return []
    now_us = app.clock.now_us()
    lapses_at = min(now_us // 1_000_000 + app.settings.quote_s, payment.expires_at)
    offers = [
        OptionOffer(
            payment,
            accounts_by_payer[means.payer],
            means if method is None else replace(means, method=method),
            assets[means.asset],
            prices[means.asset],
            splits[means.asset],
            now_us,
            _build_quote(means, costs[means.asset], context, lapses_at),
        )
        for means in payable
        if means.asset not in refused
    ]
    return [
        _find_or_build_option(app, rail, offer, context, fixed[offer.asset.id], head)
        for offer in offers
    ]


def _find_or_build_option(  # noqa: PLR0917  (one of each, none alike)
    app: _Context,
    rail: Rail,
    offer: OptionOffer,
    context: _SearchContext,
    fixed_fee: int,
    head: int,
) -> _Candidate:
    """Return the stored option of an offer, which never changes, or build a new one."""
    outline = rail.offers.outline_option(offer)
    eta_s = _promise_s(app, rail, offer, outline.eta_s)
    option = context.stored_options.get(outline.id)
    if option is None:
        option = replace(
            rail.offers.build_option(offer),
            eta_s=eta_s,
            fee=offer.split.fee,
            fee_fixed=min(fixed_fee, offer.split.fee),
            fee_basis_points=app.settings.fee_basis_points,
            head=head,
        )
    return _Candidate(option, offer.account, eta_s)


async def _find_chain_problem(app: _Context, rail: Rail, *, is_requested: bool) -> str:
    """Return why nothing can be paid on a chain now; empty if it can.

    The fee of a requested transaction is its wallet's.
    """
    problem = describe_obstacle(app, rail)
    return problem or ("" if is_requested else await relayer_funds.describe_problem(app, rail))


def _get_requested_method(rail: Rail) -> str | None:
    return None if rail.transaction_requests is None else rail.transaction_requests.method


async def _list_openable(
    app: _Context,
    rail: Rail,
    payment: Payment,
    accounts: Sequence[AssetAccount],
    requested_method: str | None,
) -> Collection[AssetAccount]:
    """Return the accounts that the payment can open; Florin signs no requested transaction."""
    if requested_method is not None:
        return ()
    return await list_openable(app, rail, payment.merchant_id, accounts)


async def _list_manual_payers(
    app: _Context,
    caller: Caller,
    rail: Rail,
    accounts_by_payer: Mapping[str, str],
    requested_method: str | None,
) -> Collection[str]:
    """Return the accounts that must send their payments themselves, as Florin pays no fee."""
    if requested_method is not None:
        return ()
    payers = list(accounts_by_payer)
    return await gas_budgets.list_manual_payers(app, caller, rail.chain_id, payers)


def _build_quote(
    means: PayableAsset, cost: AssetPrice, context: _SearchContext, lapses_at: int
) -> PriceQuote | None:
    """Return the quote of a converted price; a repeated quote keeps its time, and so its id."""
    if cost.rate is None:
        return None
    expires_at = context.quote_expiries.get((means.payer, means.asset, cost.value), lapses_at)
    return PriceQuote(cost.rate, expires_at)


def _promise_s(app: ChainContext, rail: Rail, offer: OptionOffer, eta_s: int) -> int:
    """Return the seconds from confirm to final that are promised for an offer's amount."""
    usual_s = app.chains[rail.chain_id].get_promised_s(eta_s, rail.eta_s)
    return round_promise(usual_s + rail.extra_wait_s(offer.asset.id, offer.value))


async def _list_refused_assets(  # noqa: PLR0917  (one of each, none alike)
    app: ChainContext,
    payment: Payment,
    rail: Rail,
    prices: Mapping[str, int],
    splits: Mapping[str, Split],
    may_open: Collection[AssetAccount],
) -> frozenset[str]:
    """Return the assets whose receivers cannot take the price, or must not."""

    async def obstacle(asset: str, split: Split) -> str | None:
        return await find_receiver_obstacle(
            app, rail, rail.assets[asset], prices[asset], split, may_open
        )

    report = await asyncio.gather(
        *(obstacle(asset_id, split) for asset_id, split in splits.items())
    )
    obstacles = {
        asset_id: problem for asset_id, problem in zip(splits, report, strict=True) if problem
    }
    for asset, problem in obstacles.items():
        text = "%s is left out of options of merchant %s: %s"
        _log.warning(text, asset, payment.merchant_id, problem)
    return frozenset(obstacles)


def _get_quote_expiries(
    app: StorageContext, existing: Sequence[PaymentOption]
) -> dict[_QuoteKey, int]:
    """Return the expiries of the earlier quotes that are still valid."""
    now_us = app.clock.now_us()
    return {
        (option.payer, option.asset, option.value): option.expires_at
        for option in existing
        if option.expires_at is not None and now_us < option.expires_at * 1_000_000
    }


def _list_fixed_fees(app: _Context, payment: Payment, assets: Sequence[Asset]) -> dict[str, int]:
    """Return the fixed fee in each asset in which it is known; an unknown fee is not 0."""
    fees = {}
    for asset in assets:
        fee = conversion.find_fixed_fee(app, payment, asset)
        if fee is None:
            text = (
                "%s is left out of options: fee_fixed cannot be converted, because the asset has "
                "no peg or rate"
            )
            _log.warning(text, asset.id)
        else:
            fees[asset.id] = fee
    return fees
