"""What amounts of the settings come to in what payments are asked for, or paid, in.

Exact, and rounded up: a bound holds, and a fee is never 0. An amount that cannot be converted is
None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from florin_server.config.amounts import CurrencyAmounts
from florin_server.domain.money import CURRENCIES
from florin_server.domain.payments.payment import Payment
from florin_server.flows.app import App
from florin_server.pricing.prices import parse_decimal
from florin_server.rails.types import Asset

# what a plain number of `fee_fixed` counts: minor units of the usual dollar and euro tokens
_PLAIN_FEE_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Worth:
    """So many units of a currency, each a power of ten below one whole unit."""

    value: int
    decimals: int
    currency: str


def payable_currencies(app: App, *, live: bool) -> frozenset[str]:
    """Return the currencies that an asset of the settings can pay, known rate or not.

    A source of prices that is down takes none out.
    """
    found: set[str] = set()
    for rail in app.rails.values():
        if rail.live is live:
            for asset_id, peg in rail.pegs.items():
                found.update(_priced_in(app, asset_id) if peg is None else {peg})
    return frozenset(found)


def accepted_currencies(app: App, *, live: bool) -> tuple[str, ...]:
    """Return the enabled currencies in which payments are created in a mode.

    Where a mode has no chain at all nothing can be paid, and nothing is refused for that.
    """
    if not any(rail.live is live for rail in app.rails.values()):
        return app.settings.currencies
    payable = payable_currencies(app, live=live)
    return tuple(code for code in app.settings.currencies if code in payable)


def least(app: App, *, live: bool, currency: str | None, asset: Asset | None) -> int | None:
    """Return the least that may be asked for in a currency, or else in an asset.

    None if no peg or rate tells now what the setting comes to.
    """
    setting = app.settings.amount_min
    if isinstance(setting, CurrencyAmounts):
        options = [Worth(v, CURRENCIES[code].decimals, code) for code, v in _amounts(setting)]
        if currency is not None:
            options.sort(key=lambda one: one.currency != currency)
    elif setting <= 1 or currency is not None:
        return max(1, setting)
    else:
        options = [
            Worth(setting, CURRENCIES[code].decimals, code)
            for code in _currencies_of(app, asset, None)
        ]
    if currency is not None:
        found = (_in_currency(app, live, one, currency) for one in options)
    else:
        found = (_in_asset(app, live, one, asset) for one in options if asset is not None)
    return next((max(1, one) for one in found if one is not None), None)


def may_be_known(app: App, *, live: bool, currency: str | None, asset: Asset | None) -> bool:
    """Return whether a source of prices that is down may be all that keeps `least` from knowing."""
    priced = [
        asset_id
        for rail in app.rails.values()
        if rail.live is live
        for asset_id in rail.pegs
        if app.settings.prices.pairs.get(asset_id)
    ]
    if asset is not None:
        return asset.id in priced or (asset.peg is not None and bool(priced))
    return any(currency in _priced_in(app, asset_id) for asset_id in priced)


def fixed_fee(app: App, payment: Payment, asset: Asset) -> int | None:
    """Return the fixed fee of a payment in an asset's minor units; None if nothing tells it."""
    setting = app.settings.fee_fixed
    if setting == 0:
        return 0
    kind, _, code = payment.unit.partition("/")
    asked = code if kind == "iso4217" else None
    if isinstance(setting, CurrencyAmounts):
        options = [Worth(v, CURRENCIES[name].decimals, name) for name, v in _amounts(setting)]
        options.sort(key=lambda one: one.currency != asked)
    else:
        options = [
            Worth(setting, _PLAIN_FEE_DECIMALS, name) for name in _currencies_of(app, asset, asked)
        ]
    found = (_in_asset(app, payment.live, one, asset) for one in options)
    return next((one for one in found if one is not None), None)


def in_currency(app: App, *, live: bool, worth: Worth, currency: str) -> int | None:
    """Return an amount in minor units of another currency; None if no rates tell it now."""
    return _in_currency(app, live, worth, currency)


def _amounts(setting: CurrencyAmounts) -> list[tuple[str, int]]:
    return list(setting.by_currency.items())


def _priced_in(app: App, asset_id: str) -> set[str]:
    """Return the currencies for which the settings name a price of an asset, or who tells it."""
    settings = app.settings
    return {*settings.rates.get(asset_id, {}), *settings.prices.pairs.get(asset_id, {})}


def _currencies_of(app: App, asset: Asset | None, asked: str | None) -> list[str]:
    """Return the currencies in which an asset has a worth, the best known first."""
    if asset is None:
        return []
    if asset.peg is not None:
        return [asset.peg]
    priced = _priced_in(app, asset.id)
    usual = [code for code in app.settings.currencies if code in priced]
    return sorted(dict.fromkeys([*usual, *sorted(priced)]), key=lambda code: code != asked)


def _price(app: App, asset: Asset, currency: str) -> tuple[int, int] | None:
    """Return what one whole unit of an asset costs as (digits, digits behind the point)."""
    if asset.peg == currency:
        return 1, 0
    rate = app.prices.rate(asset.id, currency, app.clock.now_us())
    return None if rate is None else parse_decimal(rate.price)


def _in_asset(app: App, live: bool, worth: Worth, asset: Asset) -> int | None:
    if (price := _price(app, asset, worth.currency)) is not None:
        return _divided(worth, price, asset.decimals)
    for code in _currencies_of(app, asset, None):
        price = _price(app, asset, code)
        crossed = None if price is None else _crossed(app, live, worth, code, _SPARE_DECIMALS)
        if price is not None and crossed is not None:
            return _divided(Worth(crossed, _SPARE_DECIMALS, code), price, asset.decimals)
    return None


# a currency on the way to an asset is rounded far below what any asset counts
_SPARE_DECIMALS = 30


def _in_currency(app: App, live: bool, worth: Worth, currency: str) -> int | None:
    decimals = CURRENCIES[currency].decimals
    if worth.currency == currency:
        return int(-(-worth.value * 10**decimals // 10**worth.decimals))
    return _crossed(app, live, worth, currency, decimals)


def _crossed(
    app: App,
    live: bool,
    worth: Worth,
    currency: str,
    decimals: int,
) -> int | None:
    """Return an amount in another currency, by an asset whose price is known in both."""
    for mine, other in _in_both(app, live, worth.currency, currency):
        (digits, scale), (other_digits, other_scale) = mine, other
        above = worth.value * other_digits * 10 ** (scale + decimals)
        below = digits * 10 ** (other_scale + worth.decimals)
        return int(-(-above // below))
    return None


def _in_both(
    app: App,
    live: bool,
    one: str,
    other: str,
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for _, asset in app.assets(live=live).values():
        first, second = _price(app, asset, one), _price(app, asset, other)
        if first is not None and second is not None:
            yield first, second


def _divided(worth: Worth, price: tuple[int, int], decimals: int) -> int:
    """Return minor units of an asset that are worth an amount, rounded up."""
    digits, scale = price
    above: int = worth.value * 10 ** (decimals + scale)
    below: int = digits * 10**worth.decimals
    return -(-above // below)
