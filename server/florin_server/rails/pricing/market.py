"""Market prices: the last good price of each source, and which of them is used.

A source that does not answer keeps its last price until it is too old. If a source's price jumps,
neither the new nor the last price is trusted: one of the two is wrong. An asset without a trusted
price is not offered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.rails.pricing.prices import (
    PricePair,
    PriceRate,
    PriceSource,
    parse_decimal,
)

_SECOND_US = 1_000_000
# clocks of chains and services differ by less; a later time is an error
_AHEAD_US = 60 * _SECOND_US

_log = logging.getLogger(__name__)


class PriceUnavailable(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """A source has no usable price."""


@dataclass(slots=True)
class LastPrice:
    """The last good rate of one source for one pair; `fault` says why no newer one exists."""

    source: str
    stale_s: int
    change_max_percent: int
    fault: str = "no price has been received yet"
    _last: PriceRate | None = None
    _doubted: bool = False

    def find_rate(self, now_us: int) -> PriceRate | None:
        """Return the rate, if it is trusted now."""
        last = self._last
        return None if last is None or self._doubted or self._is_stale(last, now_us) else last

    def record_price(self, price: str, at_us: int, now_us: int) -> None:
        """Store a price of the source, which was right at a time."""
        rate, last = PriceRate(price, self.source, at_us), self._last
        if at_us > now_us + _AHEAD_US:
            self.fault = "the price has a time in the future"
        elif self._is_stale(rate, now_us):
            self.fault = "the price is too old"
        elif last is not None and at_us < last.at_us and not self._is_stale(last, now_us):
            self.fault = "the price is older than the previous price"
        elif last is not None and not self._is_stale(last, now_us) and self._jumps(last, rate):
            self.fault = f"the price jumped from {last.price} to {price}"
            self._doubted = True
        else:
            self._last, self._doubted, self.fault = rate, False, ""

    def record_failure(self, fault: str) -> None:
        """Record that the source returned no price."""
        self.fault = fault

    def _is_stale(self, rate: PriceRate, now_us: int) -> bool:
        # a rate from the future was stored before the clock was set back: its age is unknown
        return not -_AHEAD_US <= now_us - rate.at_us <= self.stale_s * _SECOND_US

    def _jumps(self, before: PriceRate, after: PriceRate) -> bool:
        (old, old_scale), (new, new_scale) = parse_decimal(before.price), parse_decimal(after.price)
        before_scaled: int = old * 10**new_scale
        after_scaled: int = new * 10**old_scale
        return abs(after_scaled - before_scaled) * 100 > self.change_max_percent * before_scaled


class PriceFetcher(Protocol):
    """Brings the prices of one source, some of them or all."""

    async def refresh(self, now_us: int) -> None:
        """Call the source, and record each price or its fault; raise nothing."""

    async def close(self) -> None:
        """End connections."""


class MarketPrices:
    """The rates of several sources. A pair that has none here is the business of `fallback`."""

    def __init__(
        self,
        fetchers: Sequence[PriceFetcher],
        sources: Mapping[PricePair, Sequence[LastPrice | str]],
        fallback: PriceSource,
    ) -> None:
        self._fetchers = fetchers
        self._sources = sources
        self._fallback = fallback
        self._unknown: frozenset[PricePair] = frozenset()
        self._asking = 0

    def find_rate(self, asset: str, currency: str, now_us: int) -> PriceRate | None:
        """Return the rate of the first source that knows one; a text is a price of the settings."""
        ways = self._sources.get((asset, currency))
        if ways is None:
            return self._fallback.find_rate(asset, currency, now_us)
        for way in ways:
            if isinstance(way, str):
                return PriceRate(way, "settings", now_us)
            if (rate := way.find_rate(now_us)) is not None:
                return rate
        return None

    @property
    def is_refreshing(self) -> bool:
        """Return True while sources are asked."""
        return self._asking > 0

    async def refresh(self, now_us: int) -> None:
        """Call all sources at the same time."""
        self._asking += 1
        try:
            failed = await asyncio.gather(
                *(teller.refresh(now_us) for teller in self._fetchers), return_exceptions=True
            )
            for error in failed:
                if isinstance(error, Exception):
                    # its prices lapse; those of other sources are stored
                    _log.error("a source of prices failed", exc_info=error)
                elif error is not None:
                    raise error
        finally:
            self._asking -= 1
        self._log_changes(now_us)

    def list_problems(self, now_us: int) -> dict[PricePair, str]:
        """Return the pairs without a rate, and why."""
        return dict(self._fallback.list_problems(now_us)) | {
            pair: "; ".join(
                f"{way.source}: {way.fault}" for way in ways if isinstance(way, LastPrice)
            )
            for pair, ways in self._sources.items()
            if self.find_rate(*pair, now_us) is None
        }

    async def close(self) -> None:
        """End connections."""
        for teller in self._fetchers:
            await teller.close()

    def _log_changes(self, now_us: int) -> None:
        """Log what changed: which prices went missing, and which came back."""
        problems = self.list_problems(now_us)
        for pair, problem in problems.items():
            if pair not in self._unknown:
                _log.warning("no source has a price of %s in %s: %s", *pair, problem)
        for pair in self._unknown - problems.keys():
            _log.warning("the price of %s in %s is available again", *pair)
        self._unknown = frozenset(problems)
