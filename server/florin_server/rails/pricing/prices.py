"""Prices of assets without a fixed value in a currency."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

PricePair: TypeAlias = tuple[str, str]
"""An asset (CAIP-19) and a currency (ISO 4217)."""

_DECIMAL = re.compile(r"([0-9]{1,30})(?:\.([0-9]{1,30}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PriceRate:
    """The price of one whole unit of an asset, in whole units of a currency, as decimal text.

    `at_us` is its time, according to its source.
    """

    price: str
    source: str
    at_us: int

    def compute_cost(self, value: int, currency_decimals: int, asset_decimals: int) -> int:
        """Return the minor units of the asset for a value in minor units, rounded up."""
        total, scale = parse_decimal(self.price)
        worth: int = value * 10 ** (asset_decimals + scale)
        per_unit: int = total * 10**currency_decimals
        # floor division of the negated number rounds up
        return -(-worth // per_unit)

    def is_about_one(self, percent: int) -> bool:
        """Return True if the price is at most so many percent more or less than 1."""
        digits, scale = parse_decimal(self.price)
        number: int = 10**scale
        return abs(digits - number) * 100 <= percent * number


@dataclass(frozen=True, slots=True)
class PriceQuote:
    """A rate that a buyer was promised until a time, in Unix seconds."""

    rate: PriceRate
    expires_at: int

    def to_json(self) -> dict[str, object]:
        """Return JSON values, stored with the offer at this rate."""
        return {"price": self.rate.price, "source": self.rate.source, "at_us": self.rate.at_us}


class PriceSource(Protocol):
    """A source of rates. It answers at once: a source that calls others does so in `refresh`."""

    async def refresh(self, now_us: int) -> None:
        """Call other services, which can fail: known rates stay known until they are too old."""

    def find_rate(self, asset: str, currency: str, now_us: int) -> PriceRate | None:
        """Return the rate of an asset (CAIP-19) in a currency (ISO 4217).

        None if it is unknown now.
        """

    def list_problems(self, now_us: int) -> Mapping[PricePair, str]:
        """Return the reasons for missing rates that the operator's settings need."""


class FixedPrices:
    """Rates of the settings, as {asset: {currency: price}}; they are valid at any time."""

    def __init__(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self._table = table

    async def refresh(self, now_us: int) -> None:
        """Do nothing: there is no service to call."""

    def find_rate(self, asset: str, currency: str, now_us: int) -> PriceRate | None:
        """Return the rate of the table."""
        price = self._table.get(asset, {}).get(currency)
        return None if price is None else PriceRate(price, "settings", now_us)

    def list_problems(self, now_us: int) -> Mapping[PricePair, str]:  # noqa: ARG002
        """Return nothing: configured rates are known."""
        return {}


def parse_decimal(text: str) -> tuple[int, int]:
    """Return a number above zero as (digits, digits after the decimal point); else ValueError."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"not a decimal number: {text[:80]!r}")
    fraction = match[2] or ""
    digits = int(match[1] + fraction)
    if not digits:
        raise ValueError("a price must be above zero")
    return digits, len(fraction)
