"""A wallet asks what its accounts can pay with."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonical_account, canonical_asset
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.money import share_up
from florin_server.domain.payments.payment import Option, Payment, Status
from florin_server.domain.payments.triggers import Trigger
from florin_server.domain.settlement.settle_times import round_promise
from florin_server.flows.accounts.own_accounts import reserved
from florin_server.flows.app import App, Caller
from florin_server.flows.capture import requirement
from florin_server.flows.capture.requirement import Asked
from florin_server.flows.limits import gas_budgets
from florin_server.flows.payments import funding, relayer_funds, worth
from florin_server.flows.payments.load import find, head_of, payment_id_of
from florin_server.flows.payments.price import price
from florin_server.flows.payouts.opening import openable, places
from florin_server.flows.screening.check import check_lists, is_blocked
from florin_server.pricing.prices import Quote
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset, Payable, RailUnavailable, Split
from florin_server.store.accounts import destinations
from florin_server.store.payments import new_options, payments

# payer, asset, value
_Quoted: TypeAlias = tuple[str, str, int]

_log = logging.getLogger(__name__)

# no time frees room; whoever comes back asks for accounts that have options
_FULL_RETRY_S = 60

_NOTHING_ASKED = Asked({})


@dataclass(frozen=True, slots=True)
class Options:
    """What the accounts can pay with; `payment` is None for text that names no payment.

    `asked` tells which of the options wait for data about the buyer.
    """

    payment: Payment | None
    options: tuple[Option, ...]
    asked: Asked = _NOTHING_ASKED


@dataclass(frozen=True, slots=True)
class _Known:
    """Where the merchant wants assets to go, and until when quotes hold that were told before."""

    destinations: Mapping[str, str]
    quoted: Mapping[_Quoted, int]


async def options(app: App, caller: Caller, payment_ref: str, accounts: Sequence[str]) -> Options:
    """Lists the options of a payment for the given accounts, best first.

    Text that has not the shape of a payment id has none (deployed profile: it is unknown). A
    payment that is no longer payable has none either; an expired one is refused, and so is a call
    that names a blocked account, whoever else it names. FlorinError(rate_limited) if none is
    stored for the accounts and there is no room for more.
    """
    if payment_id_of(app, payment_ref) is None and not caller.wcp_profile:
        return Options(None, ())
    payment = await find(app, caller, payment_ref)
    if payment.status is Status.EXPIRED:
        raise FlorinError(Code.PAYMENT_EXPIRED)
    if payment.status is not Status.REQUIRES_ACTION:
        return Options(payment, ())
    if payment.trigger is Trigger.BLOCKED:
        raise FlorinError(Code.SANCTIONED_USER)
    if payment.trigger is Trigger.NO_OPTIONS:
        return Options(payment, ())
    app.limits.options(payment.id, caller.origin)
    for account in accounts[: app.settings.accounts_max]:
        if await is_blocked(app, account):
            raise FlorinError(Code.SANCTIONED_USER)
    await check_lists(app, live=payment.live)
    places = {
        d.asset_key: canonical_account(d.account)
        for d in await app.store.read(destinations.destinations(payment.merchant_id))
    }
    asked_for = _by_rail(app, payment, accounts)
    payers = [payer for _, written in asked_for for payer in written]
    known = await app.store.read(payments.options(payment.id, payers))
    searches = [
        _search(app, caller, payment, rail, written, _Known(places, _quoted(app, known)))
        for rail, written in asked_for
    ]
    found = [option for part in await asyncio.gather(*searches) for option in part]
    found.sort(key=lambda option: (_key(option.asset) not in places, option.eta_s))
    found = found[: app.settings.options_max]
    stored = await _keep(app, caller, payment, known, found)
    told = [_as_written(stored[one.id], one.account) for one in found if one.id in stored]
    if found and not told:
        text = "Too many options of this payment"
        raise FlorinError(Code.RATE_LIMITED, text, retry_after_s=_FULL_RETRY_S)
    asked = await requirement.ask(app, caller, payment, told)
    for at, option in enumerate(told):
        if option.id in asked.urls:
            told[at] = replace(option, actions=(requirement.build_of(payment, option),))
    return Options(payment, tuple(told), asked)


def _as_written(option: Option, account: str) -> Option:
    """Return a stored option with the account as the caller wrote it now."""
    return option if option.account == account else replace(option, account=account)


async def _keep(
    app: App, caller: Caller, payment: Payment, known: Sequence[Option], found: Sequence[Option]
) -> dict[str, Option]:
    """Stores new options, as many as there is room for.

    One that was told before keeps its terms, whatever changed since.
    """
    stored = {option.id: option for option in known}
    new = [option for option in found if option.id not in stored]
    if not new:
        return stored
    # what is stored tells nobody's address
    origin = hashlib.sha256(payment.salt + b"origin" + caller.origin.encode()).hexdigest()[:32]
    room = new_options.Room(app.settings.options_per_caller, app.settings.options_per_payment)
    offered = await app.store.write(new_options.add(payment.id, origin, new, room))
    return stored | {option.id: option for option in offered}


def _by_rail(
    app: App, payment: Payment, accounts: Sequence[str]
) -> list[tuple[Rail, dict[str, str]]]:
    """Sorts the accounts to their rails, as {canonical: as written}; skips all others."""
    rails = [rail for rail in app.rails.values() if rail.live is payment.live]
    found: list[tuple[Rail, dict[str, str]]] = [(rail, {}) for rail in rails]
    for account in accounts[: app.settings.accounts_max]:
        for rail, written in found:
            if (payer := rail.payer(account)) is not None:
                written.setdefault(payer, account)
                break
    return [(rail, written) for rail, written in found if written]


async def _search(  # noqa: PLR0917  (one of each, none alike)
    app: App,
    caller: Caller,
    payment: Payment,
    rail: Rail,
    written: Mapping[str, str],
    known: _Known,
) -> list[Option]:
    failing = app.chains[rail.chain_id].settlement_problem(app.clock.steady_us())
    unfunded = "" if failing else await relayer_funds.find_problem(app, rail)
    if stalled := rail.nodes.stalled or failing or unfunded:
        # what is signed for it could lapse before the chain goes on
        _log.warning("chain %s is left out of options: %s", rail.chain_id, stalled)
        return []
    # one look at the registry: a check may take an asset out while the chain is asked
    assets = rail.assets
    costs = {one.id: cost for one in assets.values() if (cost := price(app, payment, one))}
    fixed = _fixed_fees(app, payment, [assets[one] for one in costs])
    prices = {asset: cost.value for asset, cost in costs.items() if asset in fixed}
    if not prices:
        return []
    by_hand = await gas_budgets.by_hand(app, caller, rail.chain_id, list(written))
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            head = await head_of(app, rail)
            payable = await funding.payable(rail, list(written), prices, by_hand)
            splits = {
                one: _split(app, rail, one, prices[one], fixed[one], known.destinations)
                for one in {means.asset for means in payable}
            }
            wanted = [place for one, split in splits.items() for place in places(one, split)]
            may_open = await openable(app, rail, payment.merchant_id, wanted)
            refused = await _refused(app, payment, rail, prices, splits, may_open)
    except (RailUnavailable, TimeoutError) as error:
        _log.warning("chain %s is left out of options: %s", rail.chain_id, error)
        return []
    now_us = app.clock.now_us()
    lapses_at = min(now_us // 1_000_000 + app.settings.quote_s, payment.expires_at)

    def quote(means: Payable) -> Quote | None:
        cost = costs[means.asset]
        if cost.rate is None:
            return None
        # what was quoted keeps its time, and with it its id
        told = known.quoted.get((means.payer, means.asset, cost.value), lapses_at)
        return Quote(cost.rate, told)

    return [
        replace(
            offer := rail.offers.offer(
                payment,
                written[means.payer],
                means,
                assets[means.asset],
                prices[means.asset],
                split := splits[means.asset],
                now_us,
                quote(means),
            ),
            eta_s=_promise_s(app, rail, offer),
            fee=split.fee,
            fee_fixed=min(fixed[means.asset], split.fee),
            fee_basis_points=app.settings.fee_basis_points,
            head=head,
        )
        for means in payable
        if means.asset not in refused
    ]


def _promise_s(app: App, rail: Rail, offer: Option) -> int:
    """Return the seconds from confirm to final that are promised for an offer's amount."""
    usual_s = app.chains[rail.chain_id].promise_s(offer.eta_s, rail.eta_s)
    return round_promise(usual_s + rail.extra_wait_s(offer.asset, offer.value))


async def _refused(  # noqa: PLR0917  (one of each, none alike)
    app: App,
    payment: Payment,
    rail: Rail,
    prices: Mapping[str, int],
    splits: Mapping[str, Split],
    may_open: Collection[AssetAccount],
) -> frozenset[str]:
    """The assets whose receivers cannot take the price, or must not."""

    async def obstacle(asset: str, split: Split) -> str | None:
        if split.settled and (what := reserved(app.rails.values(), split.dest)):
            return f"the merchant's settlement destination {split.dest} is {what}"
        return await rail.offers.obstacle(rail.assets[asset], prices[asset], split, may_open)

    told = await asyncio.gather(*(obstacle(one, split) for one, split in splits.items()))
    obstacles = {one: problem for one, problem in zip(splits, told, strict=True) if problem}
    for asset, problem in obstacles.items():
        text = "%s is left out of options of merchant %s: %s"
        _log.warning(text, asset, payment.merchant_id, problem)
    return frozenset(obstacles)


def _quoted(app: App, known: Sequence[Option]) -> dict[_Quoted, int]:
    """Until when the quotes hold that were told before, of those that do."""
    now_us = app.clock.now_us()
    return {
        (option.payer, option.asset, option.value): option.expires_at
        for option in known
        if option.expires_at is not None and now_us < option.expires_at * 1_000_000
    }


def _key(asset: str) -> str:
    """An asset as settlements compare it."""
    return canonical_asset(asset, checksum=False)


def _fixed_fees(app: App, payment: Payment, assets: Sequence[Asset]) -> dict[str, int]:
    """Return the fixed fee in each asset in which it is known; an unknown one is no fee of 0."""
    found = {}
    for asset in assets:
        fee = worth.fixed_fee(app, payment, asset)
        if fee is None:
            text = "%s is left out of options: no peg or rate tells what fee_fixed comes to in it"
            _log.warning(text, asset.id)
        else:
            found[asset.id] = fee
    return found


def _split(  # noqa: PLR0917  (one of each, none alike)
    app: App, rail: Rail, asset: str, value: int, fixed: int, places: Mapping[str, str]
) -> Split:
    fee = min(fixed + share_up(value, app.settings.fee_basis_points), value)
    own = places.get(_key(asset))
    # without a destination of the merchant's own the treasury holds the money for it
    return Split(own or rail.treasury, rail.treasury if fee else None, fee, settled=own is not None)
