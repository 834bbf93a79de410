"""The price of a payment in the assets that can pay it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.money import CURRENCIES, convert_up
from florin_server.domain.payments.payment import Payment
from florin_server.rails.context import ChainContext
from florin_server.rails.pricing.prices import PriceQuote, PriceRate
from florin_server.rails.types import Asset
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class AssetPrice:
    """Minor units of an asset; `rate` is set if they follow from a rate that changes."""

    value: int
    rate: PriceRate | None = None


def find_price(app: _Context, payment: Payment, asset: Asset) -> AssetPrice | None:
    """Return the payment's amount in an asset, rounded up; None if the asset cannot pay."""
    if payment.unit == f"caip19/{asset.id}":
        return AssetPrice(payment.value)
    kind, _, code = payment.unit.partition("/")
    if kind != "iso4217":
        return None
    decimals = CURRENCIES[code].decimals
    if asset.peg is not None:
        if asset.peg != code or not _is_at_peg(app, asset, code):
            return None
        value = convert_up(payment.value, decimals, asset.decimals)
        return AssetPrice(value) if value <= _get_max_units(asset) else None
    rate = app.prices.find_rate(asset.id, code, app.clock.now_us())
    if rate is None:
        return None
    value = rate.compute_cost(payment.value, decimals, asset.decimals)
    # an amount that no account can hold is not an option
    return AssetPrice(value, rate) if value <= _get_max_units(asset) else None


def build_quote(
    app: SettingsContext, payment: Payment, price: AssetPrice, now_us: int
) -> PriceQuote | None:
    """Return the rate of a price and its end, which the payment's end limits; None at a peg."""
    if price.rate is None:
        return None
    end = min(now_us // 1_000_000 + app.settings.quote_s, payment.expires_at)
    return PriceQuote(price.rate, end)


def _get_max_units(asset: Asset) -> int:
    bits = 64 if asset.chain_id.startswith("solana:") else 256
    return 2**bits - 1  # type: ignore[no-any-return]


def _is_at_peg(app: _Context, asset: Asset, currency: str) -> bool:
    """Return False if the operator wants an asset's peg to be watched, and it is off or unknown."""
    percent = app.settings.prices.peg_off_max_percent
    if percent is None or currency not in app.settings.prices.pairs.get(asset.id, {}):
        return True
    rate = app.prices.find_rate(asset.id, currency, app.clock.now_us())
    return rate is not None and rate.is_about_one(percent)
