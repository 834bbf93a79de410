"""What assets cost that are worth no fixed amount of a currency."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Pair: TypeAlias = tuple[str, str]
"""An asset (CAIP-19) and a currency (ISO 4217)."""

_DECIMAL = re.compile(r"([0-9]{1,30})(?:\.([0-9]{1,30}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """What one whole unit of an asset costs, in whole units of a currency, as decimal text.

    `at_us` is when that was so, as its source tells.
    """

    price: str
    source: str
    at_us: int

    def cost(self, value: int, currency_decimals: int, asset_decimals: int) -> int:
        """Minor units of the asset that are worth a value in minor units, rounded up."""
        whole, scale = parse_decimal(self.price)
        worth: int = value * 10 ** (asset_decimals + scale)
        per_unit: int = whole * 10**currency_decimals
        # floor division of the negated number rounds up
        return -(-worth // per_unit)

    def is_about_one(self, percent: int) -> bool:
        """True if the price is at most so many percent more or less than 1."""
        digits, scale = parse_decimal(self.price)
        one: int = 10**scale
        return abs(digits - one) * 100 <= percent * one


@dataclass(frozen=True, slots=True)
class Quote:
    """A rate that a buyer was promised until a time, in Unix seconds."""

    rate: Rate
    expires_at: int

    def stored(self) -> dict[str, object]:
        """JSON values, kept with what was offered at this rate."""
        return {"price": self.rate.price, "source": self.rate.source, "at_us": self.rate.at_us}


class PriceSource(Protocol):
    """Knows rates. It answers at once: one that asks others does so in `refresh`."""

    async def refresh(self, now_us: int) -> None:
        """Asks others, who may fail: what was known before is known until it is too old."""

    def rate(self, asset: str, currency: str, now_us: int) -> Rate | None:
        """The rate of an asset (CAIP-19) in a currency (ISO 4217); None if it is not known now."""

    def problems(self, now_us: int) -> Mapping[Pair, str]:
        """Why which rates are not known that the operator wants to be known."""


class FixedPrices:
    """Rates that the operator wrote down, as {asset: {currency: price}}; they hold at any time."""

    def __init__(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self._table = table

    async def refresh(self, now_us: int) -> None:
        """There is nobody to ask."""

    def rate(self, asset: str, currency: str, now_us: int) -> Rate | None:
        """What the table says."""
        price = self._table.get(asset, {}).get(currency)
        return None if price is None else Rate(price, "settings", now_us)

    def problems(self, now_us: int) -> Mapping[Pair, str]:  # noqa: ARG002
        """What is written down is known."""
        return {}


def parse_decimal(text: str) -> tuple[int, int]:
    """A number above zero as (digits, how many of them stand behind the point); else ValueError."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise ValueError(f"not a decimal number: {text[:80]!r}")
    fraction = found[2] or ""
    digits = int(found[1] + fraction)
    if not digits:
        raise ValueError("a price is above zero")
    return digits, len(fraction)
