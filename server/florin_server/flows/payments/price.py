"""What a payment costs in the assets that can pay it."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.domain.money import CURRENCIES, convert_up
from florin_server.domain.payments.payment import Payment
from florin_server.flows.app import App
from florin_server.pricing.prices import Rate
from florin_server.rails.types import Asset


@dataclass(frozen=True, slots=True)
class Price:
    """Minor units of an asset; `rate` is set if they follow from one that changes."""

    value: int
    rate: Rate | None = None


def price(app: App, payment: Payment, asset: Asset) -> Price | None:
    """The payment's amount in an asset, rounded up; None if it cannot pay it."""
    if payment.unit == f"caip19/{asset.id}":
        return Price(payment.value)
    kind, _, code = payment.unit.partition("/")
    if kind != "iso4217":
        return None
    decimals = CURRENCIES[code].decimals
    if asset.peg is not None:
        if asset.peg != code or not _holds(app, asset, code):
            return None
        value = convert_up(payment.value, decimals, asset.decimals)
        return Price(value) if value <= _units_max(asset) else None
    rate = app.prices.rate(asset.id, code, app.clock.now_us())
    if rate is None:
        return None
    value = rate.cost(payment.value, decimals, asset.decimals)
    # what no account can hold is no option
    return Price(value, rate) if value <= _units_max(asset) else None


def _units_max(asset: Asset) -> int:
    bits = 64 if asset.chain_id.startswith("solana:") else 256
    return 2**bits - 1  # type: ignore[no-any-return]


def _holds(app: App, asset: Asset, currency: str) -> bool:
    """True unless the operator wants an asset's peg to be watched, and it is off or unknown."""
    percent = app.settings.prices.peg_off_max_percent
    if percent is None or currency not in app.settings.prices.pairs.get(asset.id, {}):
        return True
    rate = app.prices.rate(asset.id, currency, app.clock.now_us())
    return rate is not None and rate.is_about_one(percent)
