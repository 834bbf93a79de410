"""Amounts of the settings in currencies, for payments in any unit.

    amount_min = "0.50 USD"                        # converted for everything else
    fee_fixed = { USD = "0.30", EUR = "0.25" }     # a separate amount in each

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
        # as environment variables give it
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
        # a fraction of two has no exact form of the intended decimal fraction
        raise ValueError(f"an amount must be a string: {_FORMS}")
    return CurrencyAmounts(dict(_parse_amount(f"{text} {code}") for code, text in value.items()))


def _parse_amount(text: str) -> tuple[str, int]:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not an amount of a currency: {_FORMS}")
    total, fraction, code = match[1], match[2] or "", match[3]
    currency = CURRENCIES.get(code)
    if currency is None:
        raise ValueError(f"unknown currency {code}")
    if len(fraction) > currency.decimals:
        raise ValueError(f"{code} has {currency.decimals} digits after the decimal point")
    return code, int(total + fraction.ljust(currency.decimals, "0"))


AmountSetting: TypeAlias = Annotated[int | CurrencyAmounts, BeforeValidator(_parse), NoDecode]
