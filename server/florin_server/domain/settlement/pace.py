"""The pace of a chain: what was measured, what is usual there, and when the two are far apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

_HOUR_US: Final = 3_600_000_000
# the usual pace follows the measured one by this much an hour: slow changes raise no condition
_FOLLOWED_AN_HOUR: Final = 0.02
_UNSEEN_MAX_US: Final = 600_000_000  # time without a check counts as no more than this
# half or double is a change; it ends between two thirds and one and a half
_CHANGED: Final = 2.0
_UNCHANGED: Final = 1.5
_LOOKS: Final = 10  # in a row, until a change is reported: a halt is not a change of pace
_USUAL_AFTER_US: Final = 24 * _HOUR_US  # then a new pace becomes the usual one


@dataclass(frozen=True, slots=True)
class ChainPace:
    """Seconds between the blocks of a chain: measured last, at `at_us`, and usual there.

    `changed_us` is when a row of looks began that found the pace half, double or farther from the
    usual one, None without such a row; `looks` counts them. Times are µs since 1970.
    """

    measured_s: float
    usual_s: float
    at_us: int
    changed_us: int | None = None
    looks: int = 0

    @property
    def is_changed(self) -> bool:
        """Return whether the pace has been half or double of the usual one for ten looks."""
        return self.changed_us is not None and self.looks >= _LOOKS


def follow_pace(pace: ChainPace | None, measured_s: float, now_us: int) -> ChainPace:
    """Return the pace of a chain after another check; checks are a minute or more apart.

    The usual pace follows a measured one by at most 2 percent an hour. A pace that is half or
    double for 24 hours and ten checks becomes the usual one.
    """
    if pace is None:
        return ChainPace(measured_s, measured_s, now_us)
    ratio = measured_s / pace.usual_s
    bound = _CHANGED if pace.changed_us is None else _UNCHANGED
    if 1 / bound < ratio < bound:
        passed_us = min(max(0, now_us - pace.at_us), _UNSEEN_MAX_US)
        step = 1 + _FOLLOWED_AN_HOUR * passed_us / _HOUR_US
        usual_s = pace.usual_s * min(max(ratio, 1 / step), step)
        return ChainPace(measured_s, usual_s, now_us)
    since_us = now_us if pace.changed_us is None else pace.changed_us
    changed_pace = replace(
        pace, measured_s=measured_s, at_us=now_us, changed_us=since_us, looks=pace.looks + 1
    )
    if changed_pace.is_changed and now_us - since_us >= _USUAL_AFTER_US:
        return ChainPace(measured_s, measured_s, now_us)
    return changed_pace


def format_pace(block_s: float) -> str:
    """Return seconds between blocks as people read them, in two digits."""
    return f"{block_s:.0f} s" if block_s >= 10 else f"{block_s:.2g} s"
