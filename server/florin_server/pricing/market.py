"""What coins cost, as others tell: the last good price of each source, and which of them counts.

A source that does not answer keeps its last price until it is too old. One whose price jumps is not
believed, and neither is its last price: one of the two is wrong. An asset without a believable
price is not offered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.pricing.prices import Pair, PriceSource, Rate, parse_decimal

_SECOND_US = 1_000_000
# clocks of chains and services differ by less; what is later is no time
_AHEAD_US = 60 * _SECOND_US

_log = logging.getLogger(__name__)


class PriceFault(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """A source told no price that can be used."""


@dataclass(slots=True)
class Kept:
    """The last good rate of one source for one pair; `fault` tells why there is no newer one."""

    source: str
    stale_s: int
    change_max_percent: int
    fault: str = "nothing was told yet"
    _last: Rate | None = None
    _doubted: bool = False

    def rate(self, now_us: int) -> Rate | None:
        """The rate, if it can be believed now."""
        last = self._last
        return None if last is None or self._doubted or self._is_stale(last, now_us) else last

    def take(self, price: str, at_us: int, now_us: int) -> None:
        """A price that the source told, which was right at a time."""
        rate, last = Rate(price, self.source, at_us), self._last
        if at_us > now_us + _AHEAD_US:
            self.fault = "the price is from the future"
        elif self._is_stale(rate, now_us):
            self.fault = "the price is too old"
        elif last is not None and at_us < last.at_us and not self._is_stale(last, now_us):
            self.fault = "the price is older than the one before"
        elif last is not None and not self._is_stale(last, now_us) and self._jumps(last, rate):
            self.fault = f"the price jumped from {last.price} to {price}"
            self._doubted = True
        else:
            self._last, self._doubted, self.fault = rate, False, ""

    def miss(self, fault: str) -> None:
        """The source told no price."""
        self.fault = fault

    def _is_stale(self, rate: Rate, now_us: int) -> bool:
        # a rate from the future was taken before the clock was set back: its age is unknown
        return not -_AHEAD_US <= now_us - rate.at_us <= self.stale_s * _SECOND_US

    def _jumps(self, before: Rate, after: Rate) -> bool:
        (old, old_scale), (new, new_scale) = parse_decimal(before.price), parse_decimal(after.price)
        before_scaled: int = old * 10**new_scale
        after_scaled: int = new * 10**old_scale
        return abs(after_scaled - before_scaled) * 100 > self.change_max_percent * before_scaled


class Teller(Protocol):
    """Brings the prices of one source, some of them or all."""

    async def refresh(self, now_us: int) -> None:
        """Asks, and lets every Kept know what was told or why nothing was; raises nothing."""

    async def close(self) -> None:
        """Ends connections."""


class Market:
    """The rates of several sources. A pair that has none here is the business of `others`."""

    def __init__(
        self,
        tellers: Sequence[Teller],
        ways: Mapping[Pair, Sequence[Kept | str]],
        others: PriceSource,
    ) -> None:
        self._tellers = tellers
        self._ways = ways
        self._others = others
        self._unknown: frozenset[Pair] = frozenset()
        self._asking = 0

    def rate(self, asset: str, currency: str, now_us: int) -> Rate | None:
        """The rate of the first source that knows one; a text is a price of the settings."""
        ways = self._ways.get((asset, currency))
        if ways is None:
            return self._others.rate(asset, currency, now_us)
        for way in ways:
            if isinstance(way, str):
                return Rate(way, "settings", now_us)
            if (rate := way.rate(now_us)) is not None:
                return rate
        return None

    @property
    def busy(self) -> bool:
        """True while sources are asked."""
        return self._asking > 0

    async def refresh(self, now_us: int) -> None:
        """Asks all sources at the same time."""
        self._asking += 1
        try:
            failed = await asyncio.gather(
                *(teller.refresh(now_us) for teller in self._tellers), return_exceptions=True
            )
            for error in failed:
                if isinstance(error, Exception):
                    # its prices lapse; those of other sources were taken
                    _log.error("a source of prices failed", exc_info=error)
                elif error is not None:
                    raise error
        finally:
            self._asking -= 1
        self._tell(now_us)

    def problems(self, now_us: int) -> dict[Pair, str]:
        """The pairs without a rate, and why."""
        return dict(self._others.problems(now_us)) | {
            pair: "; ".join(f"{way.source}: {way.fault}" for way in ways if isinstance(way, Kept))
            for pair, ways in self._ways.items()
            if self.rate(*pair, now_us) is None
        }

    async def close(self) -> None:
        """Ends connections."""
        for teller in self._tellers:
            await teller.close()

    def _tell(self, now_us: int) -> None:
        """Logs what changed: which prices went missing, and which came back."""
        problems = self.problems(now_us)
        for pair, problem in problems.items():
            if pair not in self._unknown:
                _log.warning("nobody knows what %s costs in %s: %s", *pair, problem)
        for pair in self._unknown - problems.keys():
            _log.warning("it is known again what %s costs in %s", *pair)
        self._unknown = frozenset(problems)
