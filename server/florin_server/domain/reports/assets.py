"""Names and decimals of the units in a report."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from florin_server.domain.money import CURRENCIES, format_minor_units

_FIAT: Final = "iso4217/"
_ASSET: Final = "caip19/"
_NOT_SYMBOL: Final = re.compile(r"[^A-Z0-9]+")
# accounting programs take at most 24 characters: two names of eight, and a digest of six
_NAME_CHARS: Final = 8
_DIGEST_CHARS: Final = 6


@dataclass(frozen=True, slots=True)
class ReportAsset:
    """An asset as reports name it; `live` is None if its chain is not configured any more.

    An unknown asset has no decimals, and is counted in minor units.
    """

    id: str
    symbol: str
    network: str
    decimals: int
    live: bool | None = None

    @property
    def name(self) -> str:
        """Return the name for people, such as "USDC on Base"."""
        return f"{self.symbol} on {self.network}" if self.network else self.id

    @property
    def commodity(self) -> str:
        """Return the name for accounting programs, such as "USDC.8453.3F09A1".

        It depends on the asset alone, and differs for tokens of one symbol. It consists of capital
        letters, digits and dots, and begins with a letter.
        """
        symbol = _NOT_SYMBOL.sub("", self.symbol.upper())[:_NAME_CHARS]
        if not symbol[:1].isalpha():
            symbol = f"X{symbol}"[:_NAME_CHARS]
        reference = self.id.partition("/")[0].rpartition(":")[2]
        chain = _NOT_SYMBOL.sub("", reference.upper())[:_NAME_CHARS]
        digest = hashlib.sha256(self.id.lower().encode()).hexdigest()[:_DIGEST_CHARS].upper()
        return f"{symbol}.{chain}.{digest}"

    def format(self, minor_units: int) -> str:
        """Return minor units in whole units as a plain number, with all decimals."""
        return format_minor_units(minor_units, self.decimals)


FindReportAsset: TypeAlias = Callable[[str], ReportAsset]


@dataclass(frozen=True, slots=True)
class ReportUnit:
    """The unit of a requested amount: a currency (without `asset_id`), or an asset."""

    symbol: str
    decimals: int
    asset_id: str = ""

    def format(self, minor_units: int) -> str:
        """Return minor units in whole units as a plain number, with all decimals."""
        return format_minor_units(minor_units, self.decimals)


def get_unit(unit: str, find_asset: FindReportAsset) -> ReportUnit:
    """Return the unit of an amount ("iso4217/USD", "caip19/…")."""
    if unit.startswith(_FIAT):
        code = unit.removeprefix(_FIAT)
        currency = CURRENCIES.get(code)
        return ReportUnit(code, currency.decimals if currency else 0)
    asset = find_asset(unit.removeprefix(_ASSET))
    return ReportUnit(asset.symbol, asset.decimals, asset.id)


def make_unknown_asset(asset_id: str) -> ReportAsset:
    """Return an asset without a name and decimals."""
    return ReportAsset(asset_id, asset_id, "", 0)
