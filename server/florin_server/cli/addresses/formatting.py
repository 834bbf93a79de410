"""Format amounts at payments' addresses for commands."""

from __future__ import annotations

from florin.v1.money_pb2 import Amount

from florin_server.cli.payments.amounts import format_amount


def format_units(price: Amount, value: str) -> str:
    """Format minor units of the asset of a price, such as 12.50 tUSD."""
    amount = Amount()
    amount.CopyFrom(price)
    amount.value = value
    return format_amount(amount)
