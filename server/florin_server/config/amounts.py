"""Amounts of the settings that are in currencies, whatever a payment is asked for in.

    amount_min = "0.50 USD"                        # converted for everything else
    fee_fixed = { USD = "0.30", EUR = "0.25" }     # its own figure in each of these

A plain number is the form of older releases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import orjson
from pydantic import BeforeValidator
from pydantic_settings import NoDecode

from florin_server.domain.money import CURRENCIES

_AMOUNT = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,4}))? ?([A-Z]{3})", re.ASCII)
_FORMS = 'write "0.50 USD", or a table as { USD = "0.50", EUR = "0.45" }'


@dataclass(frozen=True, slots=True)
class CurrencyAmounts:
    """Minor units by currency (ISO 4217), at least one; the first is converted for all others."""

    by_currency: Mapping[str, int]


def _parse(value: Any) -> int | CurrencyAmounts:
    if isinstance(value, str):
        # as variables of the environment say it
        text = value.strip()
        if not text.isdecimal() and not text.startswith("{"):
            return CurrencyAmounts(dict([_parse_amount(text)]))
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise ValueError(_FORMS) from None
    if isinstance(value, CurrencyAmounts):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("must not be below zero")
        return value
    if not isinstance(value, dict) or not value:
        raise ValueError(_FORMS)
    if not all(type(text) in {int, str} for text in value.values()):
        # a fraction of two has no exact form of the decimal one that was meant
        raise ValueError(f"an amount is a text: {_FORMS}")
    return CurrencyAmounts(dict(_parse_amount(f"{text} {code}") for code, text in value.items()))


def _parse_amount(text: str) -> tuple[str, int]:
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no amount of a currency: {_FORMS}")
    whole, fraction, code = found[1], found[2] or "", found[3]
    currency = CURRENCIES.get(code)
    if currency is None:
        raise ValueError(f"there is no currency {code}")
    if len(fraction) > currency.decimals:
        raise ValueError(f"{code} has {currency.decimals} digits behind the point")
    return code, int(whole + fraction.ljust(currency.decimals, "0"))


AmountSetting: TypeAlias = Annotated[int | CurrencyAmounts, BeforeValidator(_parse), NoDecode]
