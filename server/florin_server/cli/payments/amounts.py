"""Amounts as people write and read them: 12.50 USD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from florin.v1.money_pb2 import Amount

from florin_server.domain.money import CURRENCIES, parse_unit

_FORM = 'write a number and a currency, such as "12.50 USD"'
_NUMBER = re.compile(r"(\d{1,60})(?:\.(\d{1,30}))?")


def read(words: Sequence[str]) -> tuple[str, int]:
    """Unit and minor units of what was typed; ValueError with a sentence if it is no amount."""
    parts = " ".join(words).split()
    if len(parts) != 2:
        raise ValueError(f"{_said(words)} is not an amount: {_FORM}")
    if "/" in parts[0] or parts[0].isalpha():
        parts.reverse()
    number, unit = parts
    found = _NUMBER.fullmatch(number)
    if found is None:
        raise ValueError(f"{number[:80]!r} is not an amount: {_FORM}")
    if "/" in unit:
        parse_unit(unit)
        if found[2] is not None:
            raise ValueError(f"an amount in {unit} is a whole number of its minor units")
        return unit, int(found[1])
    currency = CURRENCIES.get(unit.upper())
    if currency is None:
        raise ValueError(f"there is no currency {unit[:80]!r}")
    digits = found[2] or ""
    if len(digits) > currency.decimals:
        raise ValueError(f"{currency.code} has {currency.decimals} digits behind the point")
    whole = Decimal(f"{found[1]}.{digits or 0}")
    return f"iso4217/{currency.code}", int(whole.scaleb(currency.decimals))


def shown(amount: Amount) -> str:
    """An amount of a message: 12.50 USD; of a currency with all its digits."""
    display = amount.display
    value, decimals = int(amount.value or 0), display.decimals
    if not decimals:
        return f"{value} {display.asset_symbol}"
    whole, rest = divmod(value, 10**decimals)
    digits = f"{rest:0{decimals}d}"
    if amount.unit.startswith("caip19/"):
        digits = digits.rstrip("0").ljust(2, "0")
    return f"{whole}.{digits} {display.asset_symbol}"


def _said(words: Sequence[str]) -> str:
    return repr(" ".join(words)[:80])
