"""Parse and format amounts such as 12.50 USD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from florin.v1.money_pb2 import Amount

from florin_server.domain.money import CURRENCIES, parse_unit

_FORMAT_HELP = "write 12.50 USD"
_NUMBER = re.compile(r"(\d{1,60})(?:\.(\d{1,30}))?")


def parse_amount(texts: Sequence[str]) -> tuple[str, int]:
    """Return the unit and the minor units of an amount; ValueError with a sentence if invalid."""
    parts = " ".join(texts).split()
    if len(parts) != 2:
        raise ValueError(f"{_join_texts(texts)} is not an amount; {_FORMAT_HELP}")
    if "/" in parts[0] or parts[0].isalpha():
        parts.reverse()
    number, unit = parts
    match = _NUMBER.fullmatch(number)
    if match is None:
        raise ValueError(f"{number[:80]!r} is not an amount; {_FORMAT_HELP}")
    if "/" in unit:
        parse_unit(unit)
        if match[2] is not None:
            raise ValueError(f"an amount in {unit} is a whole number of minor units")
        return unit, int(match[1])
    currency = CURRENCIES.get(unit.upper())
    if currency is None:
        raise ValueError(f"unknown currency {unit[:80]!r}; {_FORMAT_HELP}")
    digits = match[2] or ""
    if len(digits) > currency.decimals:
        raise ValueError(f"{currency.code} has only {currency.decimals} decimals")
    decimal = Decimal(f"{match[1]}.{digits or 0}")
    return f"iso4217/{currency.code}", int(decimal.scaleb(currency.decimals))


def format_amount(amount: Amount) -> str:
    """Format an amount such as 12.50 USD; currencies show all decimals, tokens at least two."""
    display = amount.display
    value, decimals = int(amount.value or 0), display.decimals
    if not decimals:
        return f"{value} {display.asset_symbol}"
    total, rest = divmod(value, 10**decimals)
    digits = f"{rest:0{decimals}d}"
    if amount.unit.startswith("caip19/"):
        digits = digits.rstrip("0").ljust(2, "0")
    return f"{total}.{digits} {display.asset_symbol}"


def _join_texts(texts: Sequence[str]) -> str:
    return repr(" ".join(texts)[:80])
