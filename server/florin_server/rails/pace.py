"""Measures how fast the blocks of a chain come, whatever its kind."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final, NamedTuple

# A node cannot claim blocks that are faster than this, which would ask for ever more of them.
BLOCK_S_MIN: Final = 0.05
BLOCK_S_MAX: Final = 600.0
_SAMPLE_S: Final = 2.0
_SAMPLES: Final = 31
_SAMPLES_MIN: Final = 4  # three intervals, of which one may be wrong
# A look sees a block up to an interval late. Over a quarter of the samples that is little, and an
# interval in which the chain stood still is in less than half of such spans.
_SPANS: Final = 4


class _Sample(NamedTuple):
    """A head: its number, when it was seen in monotonic seconds, and its own Unix time if known."""

    number: int
    at: float
    time: int | None


class PaceMeter:
    """Measures the seconds between the blocks, or slots, of one chain.

    The last 31 heads count that were seen at least two seconds apart.
    """

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=_SAMPLES)
        self._restored_s: float | None = None

    @property
    def block_s(self) -> float | None:
        """Return the seconds between blocks: measured, else restored, else None."""
        measured = self.measured_s
        return self._restored_s if measured is None else measured

    @property
    def measured_s(self) -> float | None:
        """Return the seconds between blocks as this process measured them; None before that.

        It is the smaller one of what our clock and the blocks' timestamps say: it asks for more
        blocks. The result is between 0.05 and 600.
        """
        if len(self._samples) < _SAMPLES_MIN:
            return None
        samples = list(self._samples)
        spans = zip(samples, samples[len(samples) // _SPANS :], strict=False)
        by_clock = median((two.at - one.at) / (two.number - one.number) for one, two in spans)
        first, last = samples[0], samples[-1]
        seconds = 0 if first.time is None or last.time is None else last.time - first.time
        # timestamps are whole seconds, of which one may be missing; those that stand say nothing
        by_chain = (seconds + 1) / (last.number - first.number)
        return _bounded(min(by_clock, by_chain) if seconds > 0 else by_clock)

    def restore(self, block_s: float) -> None:
        """Use what an earlier process measured until this one has measured, within the bounds."""
        self._restored_s = _bounded(block_s)

    def record(self, number: int, at: float, time: int | None = None) -> None:
        """Record a head that was seen at a monotonic time; most are not needed."""
        last = self._samples[-1] if self._samples else None
        if last is None or (at - last.at >= _SAMPLE_S and number > last.number):
            self._samples.append(_Sample(number, at, time))

    def forget_from(self, number: int) -> None:
        """Forget a block that was replaced, and all after it."""
        while self._samples and self._samples[-1].number >= number:
            self._samples.pop()


def _bounded(block_s: float) -> float:
    return min(max(block_s, BLOCK_S_MIN), BLOCK_S_MAX)
