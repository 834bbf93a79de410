"""Observations of the nodes of chains by the hour: state, lag, response times and errors."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

HOURS_KEPT: Final = 48
HOUR_US: Final = 3600 * 1_000_000
# upper bounds of groups of response times, in milliseconds; the last group has no bound
ANSWER_BOUNDS_MS: Final = (10, 25, 50, 75, 100, 150, 250, 500, 1_000, 2_500, 5_000)
ANSWER_GROUPS: Final = len(ANSWER_BOUNDS_MS) + 1


class NodeErrorKind(StrEnum):
    """The kind of a failed request."""

    TIMEOUTS = "timeouts"
    UNREACHABLE = "unreachable"  # no connection, or no answer of a node
    RATE_LIMITED = "rate_limited"
    REFUSED = "refused"  # the node answered that it failed
    STALE = "stale"  # the answer was older than data already seen
    WRONG_CHAIN = "wrong_chain"


@dataclass(slots=True)
class NodeActivity:
    """Observations of a node; the sum of two is their observations together.

    `probes` are checks that read its head, with `lag_sum` and `lag_max` in blocks. `answers` counts
    answers by group of ANSWER_BOUNDS_MS.
    """

    checks: int = 0
    healthy_checks: int = 0
    probes: int = 0
    lag_sum: int = 0
    lag_max: int = 0
    answers: list[int] = field(default_factory=lambda: [0] * ANSWER_GROUPS)
    errors: Counter[NodeErrorKind] = field(default_factory=Counter)

    @property
    def is_empty(self) -> bool:
        """Return True if nothing was observed."""
        return not (self.checks or self.probes or any(self.answers) or self.errors)

    def record_check(self, *, is_healthy: bool) -> None:
        """Count a check of its state."""
        self.checks += 1
        self.healthy_checks += is_healthy

    def record_lag(self, blocks: int) -> None:
        """Count a probe that found it so many blocks behind."""
        self.probes += 1
        self.lag_sum += blocks
        self.lag_max = max(self.lag_max, blocks)

    def record_answer(self, seconds: float) -> None:
        """Count an answer."""
        self.answers[bisect_left(ANSWER_BOUNDS_MS, seconds * 1000)] += 1

    def add(self, other: NodeActivity) -> None:
        """Add further observations."""
        self.checks += other.checks
        self.healthy_checks += other.healthy_checks
        self.probes += other.probes
        self.lag_sum += other.lag_sum
        self.lag_max = max(self.lag_max, other.lag_max)
        self.answers = [a + b for a, b in zip(self.answers, other.answers, strict=True)]
        self.errors.update(other.errors)


@dataclass(frozen=True, slots=True)
class NodeHour:
    """The observations of a node in one hour, counted in whole hours since the Unix epoch."""

    hour: int
    checks: int
    healthy_checks: int
    probes: int
    lag_sum: int
    lag_max: int
    answers: Sequence[int]
    errors: Mapping[NodeErrorKind, int]

    @property
    def lag(self) -> float:
        """Return the average lag in blocks."""
        return self.lag_sum / self.probes if self.probes else 0.0

    def estimate_ms(self, share: float) -> float | None:
        """Return the time that a share of the answers kept; None without an answer."""
        return estimate_quantile_ms(self.answers, share)


def estimate_quantile_ms(answers: Sequence[int], share: float) -> float | None:
    """Return the response time in milliseconds that a share of grouped answers kept.

    The times of a group count as evenly spread. Those above the last bound count as that bound.
    """
    left = share * sum(answers)
    if not left:
        return None
    low = 0.0
    for bound, count in zip(ANSWER_BOUNDS_MS, answers, strict=False):
        if count and left <= count:
            return low + (bound - low) * left / count
        left -= count
        low = float(bound)
    return low
