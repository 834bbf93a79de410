"""Amounts of the settings, converted to the units in which payments are requested or paid.

Exact, and rounded up: a bound holds, and a fee is never 0. An amount that cannot be converted is
None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.money import CURRENCIES
from florin_server.domain.payments.payment import Payment
from florin_server.rails.context import ChainContext
from florin_server.rails.pricing.prices import parse_decimal
from florin_server.rails.types import Asset
from florin_server.settings.amounts import CurrencyAmounts
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# the unit of a plain number of `fee_fixed`: minor units of the usual dollar and euro tokens
_PLAIN_FEE_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class CurrencyValue:
    """So many units of a currency, each a power of ten below one whole unit."""

    value: int
    decimals: int
    currency: str


def list_payable_currencies(app: _Context, *, live: bool) -> frozenset[str]:
    """Return the currencies that an asset of the settings can pay, known rate or not.

    A source of prices that is down takes none out.
    """
    currencies: set[str] = set()
    for rail in app.rails.values():
        if rail.live is live:
            for asset_id, peg in rail.pegs.items():
                currencies.update(_list_priced_currencies(app, asset_id) if peg is None else {peg})
    return frozenset(currencies)


def list_accepted_currencies(app: _Context, *, live: bool) -> tuple[str, ...]:
    """Return the enabled currencies in which payments are created in a mode.

    A mode without chains can pay nothing, and refuses no currency for that.
    """
    if not any(rail.live is live for rail in app.rails.values()):
        return app.settings.currencies
    payable = list_payable_currencies(app, live=live)
    return tuple(code for code in app.settings.currencies if code in payable)


def find_minimum(
    app: _Context, *, live: bool, currency: str | None, asset: Asset | None
) -> int | None:
    """Return the smallest amount of a payment in a currency, or else in an asset.

    None if no peg or rate converts the setting now.
    """
    setting = app.settings.amount_min
    if isinstance(setting, CurrencyAmounts):
        amounts = [
            CurrencyValue(v, CURRENCIES[code].decimals, code) for code, v in _list_amounts(setting)
        ]
        if currency is not None:
            amounts.sort(key=lambda amount: amount.currency != currency)
    elif setting <= 1 or currency is not None:
        return max(1, setting)
    else:
        amounts = [
            CurrencyValue(setting, CURRENCIES[code].decimals, code)
            for code in _list_currencies(app, asset, None)
        ]
    if currency is not None:
        converted = (_convert_to_currency(app, live, amount, currency) for amount in amounts)
    else:
        converted = (
            _convert_to_asset(app, live, amount, asset) for amount in amounts if asset is not None
        )
    return next((max(1, value) for value in converted if value is not None), None)


def may_minimum_be_unknown(
    app: _Context, *, live: bool, currency: str | None, asset: Asset | None
) -> bool:
    """Return whether a price source that is down can be the only reason for an unknown minimum."""
    priced = [
        asset_id
        for rail in app.rails.values()
        if rail.live is live
        for asset_id in rail.pegs
        if app.settings.prices.pairs.get(asset_id)
    ]
    if asset is not None:
        return asset.id in priced or (asset.peg is not None and bool(priced))
    return any(currency in _list_priced_currencies(app, asset_id) for asset_id in priced)


def find_fixed_fee(app: _Context, payment: Payment, asset: Asset) -> int | None:
    """Return the fixed fee of a payment in an asset's minor units.

    None if it cannot be converted.
    """
    setting = app.settings.fee_fixed
    if setting == 0:
        return 0
    kind, _, code = payment.unit.partition("/")
    currency = code if kind == "iso4217" else None
    if isinstance(setting, CurrencyAmounts):
        amounts = [
            CurrencyValue(v, CURRENCIES[name].decimals, name) for name, v in _list_amounts(setting)
        ]
        amounts.sort(key=lambda amount: amount.currency != currency)
    else:
        amounts = [
            CurrencyValue(setting, _PLAIN_FEE_DECIMALS, name)
            for name in _list_currencies(app, asset, currency)
        ]
    converted = (_convert_to_asset(app, payment.live, amount, asset) for amount in amounts)
    return next((value for value in converted if value is not None), None)


def convert(app: _Context, *, live: bool, amount: CurrencyValue, currency: str) -> int | None:
    """Return an amount in minor units of another currency; None without rates."""
    return _convert_to_currency(app, live, amount, currency)


def _list_amounts(setting: CurrencyAmounts) -> list[tuple[str, int]]:
    return list(setting.by_currency.items())


def _list_priced_currencies(app: SettingsContext, asset_id: str) -> set[str]:
    """Return the currencies for which the settings have a price of an asset, or a source."""
    settings = app.settings
    return {*settings.rates.get(asset_id, {}), *settings.prices.pairs.get(asset_id, {})}


def _list_currencies(app: SettingsContext, asset: Asset | None, preferred: str | None) -> list[str]:
    """Return the currencies in which an asset has a value, the best known first."""
    if asset is None:
        return []
    if asset.peg is not None:
        return [asset.peg]
    priced = _list_priced_currencies(app, asset.id)
    usual = [code for code in app.settings.currencies if code in priced]
    return sorted(dict.fromkeys([*usual, *sorted(priced)]), key=lambda code: code != preferred)


def _find_price(app: _Context, asset: Asset, currency: str) -> tuple[int, int] | None:
    """Return what one whole unit of an asset costs as (digits, digits behind the point)."""
    if asset.peg == currency:
        return 1, 0
    rate = app.prices.find_rate(asset.id, currency, app.clock.now_us())
    return None if rate is None else parse_decimal(rate.price)


def _convert_to_asset(app: _Context, live: bool, amount: CurrencyValue, asset: Asset) -> int | None:
    if (price := _find_price(app, asset, amount.currency)) is not None:
        return _divide_rounding_up(amount, price, asset.decimals)
    for code in _list_currencies(app, asset, None):
        price = _find_price(app, asset, code)
        crossed = (
            None
            if price is None
            else _convert_through_asset(app, live, amount, code, _GUARD_DECIMALS)
        )
        if price is not None and crossed is not None:
            return _divide_rounding_up(
                CurrencyValue(crossed, _GUARD_DECIMALS, code), price, asset.decimals
            )
    return None


# an intermediate currency is rounded far below the units of any asset
_GUARD_DECIMALS = 30


def _convert_to_currency(
    app: _Context, live: bool, amount: CurrencyValue, currency: str
) -> int | None:
    decimals = CURRENCIES[currency].decimals
    if amount.currency == currency:
        return int(-(-amount.value * 10**decimals // 10**amount.decimals))
    return _convert_through_asset(app, live, amount, currency, decimals)


def _convert_through_asset(
    app: _Context,
    live: bool,
    amount: CurrencyValue,
    currency: str,
    decimals: int,
) -> int | None:
    """Return an amount in another currency, by an asset whose price is known in both."""
    for mine, other in _list_common_prices(app, live, amount.currency, currency):
        (digits, scale), (other_digits, other_scale) = mine, other
        above = amount.value * other_digits * 10 ** (scale + decimals)
        below = digits * 10 ** (other_scale + amount.decimals)
        return int(-(-above // below))
    return None


def _list_common_prices(
    app: _Context,
    live: bool,
    from_currency: str,
    to_currency: str,
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for _, asset in app.list_assets(live=live).values():
        first, second = _find_price(app, asset, from_currency), _find_price(app, asset, to_currency)
        if first is not None and second is not None:
            yield first, second


def _divide_rounding_up(amount: CurrencyValue, price: tuple[int, int], decimals: int) -> int:
    """Return minor units of an asset that are worth an amount, rounded up."""
    digits, scale = price
    above: int = amount.value * 10 ** (decimals + scale)
    below: int = digits * 10**amount.decimals
    return -(-above // below)
