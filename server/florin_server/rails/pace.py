"""The measured pace of a chain's blocks, for every kind of chain."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final, NamedTuple

# A node cannot claim faster blocks than this, which would require ever more of them.
BLOCK_S_MIN: Final = 0.05
BLOCK_S_MAX: Final = 600.0
_SAMPLE_S: Final = 2.0
_SAMPLES: Final = 31
_SAMPLES_MIN: Final = 4  # three intervals, of which one may be wrong
# A poll sees a block up to an interval late. Over a quarter of the samples that is little, and an
# interval in which the chain stalled is in less than half of such spans.
_SPANS: Final = 4


class _HeadSample(NamedTuple):
    """A head: its number, when it was seen (monotonic seconds), and its Unix time if known."""

    number: int
    seen_at: float
    time: int | None


class PaceMeter:
    """Measure the seconds between the blocks, or slots, of one chain.

    It uses the last 31 heads that were seen at least two seconds apart.
    """

    def __init__(self) -> None:
        self._samples: deque[_HeadSample] = deque(maxlen=_SAMPLES)
        self._restored_s: float | None = None

    @property
    def block_s(self) -> float | None:
        """Return the seconds between blocks: measured, else restored, else None."""
        measured = self.measured_s
        return self._restored_s if measured is None else measured

    @property
    def measured_s(self) -> float | None:
        """Return the seconds between blocks that this process measured; None before that.

        It is the smaller value of our clock and the blocks' timestamps, as it requires more blocks.
        The result is between 0.05 and 600.
        """
        if len(self._samples) < _SAMPLES_MIN:
            return None
        samples = list(self._samples)
        spans = zip(samples, samples[len(samples) // _SPANS :], strict=False)
        by_clock = median(
            (two.seen_at - head_sample.seen_at) / (two.number - head_sample.number)
            for head_sample, two in spans
        )
        first, last = samples[0], samples[-1]
        seconds = 0 if first.time is None or last.time is None else last.time - first.time
        # timestamps are whole seconds, and one second may be missing; constant timestamps prove
        # nothing
        by_chain = (seconds + 1) / (last.number - first.number)
        return _clamp(min(by_clock, by_chain) if seconds > 0 else by_clock)

    def restore(self, block_s: float) -> None:
        """Use an earlier process's value, within bounds, until this process has measured."""
        self._restored_s = _clamp(block_s)

    def record_head(self, number: int, seen_at: float, time: int | None = None) -> None:
        """Record a head seen at a monotonic time; most heads are not needed."""
        last = self._samples[-1] if self._samples else None
        if last is None or (seen_at - last.seen_at >= _SAMPLE_S and number > last.number):
            self._samples.append(_HeadSample(number, seen_at, time))

    def forget_from(self, number: int) -> None:
        """Forget a block that was replaced, and all after it."""
        while self._samples and self._samples[-1].number >= number:
            self._samples.pop()


def _clamp(block_s: float) -> float:
    return min(max(block_s, BLOCK_S_MIN), BLOCK_S_MAX)
