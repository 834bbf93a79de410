"""What a payment costs in the assets that can pay it."""

from __future__ import annotations

from florin_server.domain.money import CURRENCIES, convert_up
from florin_server.domain.payment import Payment
from florin_server.rails.base import Asset


def price(payment: Payment, asset: Asset) -> int | None:
    """The payment's amount in minor units of the asset, rounded up; None if it cannot pay it."""
    if payment.unit == f"caip19/{asset.id}":
        return payment.value
    kind, _, code = payment.unit.partition("/")
    if kind != "iso4217" or asset.peg != code:
        return None
    return convert_up(payment.value, CURRENCIES[code].decimals, asset.decimals)
