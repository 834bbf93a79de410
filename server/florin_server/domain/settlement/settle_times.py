"""Times from confirm to final of the newest payments on a chain."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Final, NamedTuple

_SAMPLES_MAX: Final = 31
_SAMPLES_MIN: Final = 5  # fewer payments show nothing
# of the newest payments, so that no single buyer or merchant decides the promise to all
_SAMPLES_PER_PAYER: Final = 3
_SAMPLES_PER_MERCHANT: Final = 7
# for any measurement, a promise stays within these factors of the first guess
_FACTOR_MIN: Final = 0.1
_FACTOR_MAX: Final = 10.0
_DIGEST: Final = 12


class SettleTime(NamedTuple):
    """Milliseconds from the confirm to the end of a payment, and digests of its parties."""

    ms: int
    payer: str
    merchant: str


@dataclass(frozen=True, slots=True)
class SettleTimes:
    """The newest payments of a chain that count, the newest last: at most 31.

    At most 3 are of one payer, and 7 of one merchant: older ones are dropped.
    """

    samples: tuple[SettleTime, ...] = ()

    def add(self, seconds: float, payer: str, merchant: str) -> SettleTimes:
        """Return the times with one more payment."""
        new = SettleTime(max(0, round(seconds * 1000)), _digest(payer), _digest(merchant))
        samples = [*self.samples, new]
        _drop_oldest(samples, "payer", new.payer, _SAMPLES_PER_PAYER)
        _drop_oldest(samples, "merchant", new.merchant, _SAMPLES_PER_MERCHANT)
        return SettleTimes(tuple(samples[-_SAMPLES_MAX:]))

    @property
    def median_s(self) -> float | None:
        """Return the median in seconds; None if fewer than 5 payments count."""
        if len(self.samples) < _SAMPLES_MIN:
            return None
        return median(time.ms for time in self.samples) / 1000

    def encode(self) -> str:
        """Return the times as a text of at most 2 kB."""
        return json.dumps(self.samples, separators=(",", ":"))


def decode_times(text: str | None) -> SettleTimes:
    """Return what `encode` wrote; without a text no times."""
    return SettleTimes(tuple(SettleTime(*time) for time in json.loads(text or "[]")))


def compute_promise_s(eta_s: int, guess_s: int, median_s: float | None) -> float:
    """Return the seconds to promise for an option for which the settings promise `eta_s`.

    `guess_s` is the promise of the chain's settings for the shortest way to pay. The result is
    between a tenth and ten times `eta_s`, for any measurement.
    """
    if median_s is None:
        return eta_s
    return eta_s * min(max(median_s / max(1, guess_s), _FACTOR_MIN), _FACTOR_MAX)


def round_promise(seconds: float) -> int:
    """Return whole seconds, not less than it takes."""
    return ceil(seconds)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]


def _drop_oldest(samples: list[SettleTime], member: str, digest: str, most: int) -> None:
    places = [n for n, time in enumerate(samples) if getattr(time, member) == digest]
    for place in reversed(places[: max(0, len(places) - most)]):
        del samples[place]
