"""One kind of limit: calls of each key, decided at once, and reported to other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from florin_server.base.clock import Clock
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.gcra import MINUTE_US, GcraLimiter, RateLimitDecision
from florin_server.domain.pending_counts import PendingCounts, compute_threshold

# of each kind; a key needs about 200 bytes, and as much again where it is shared
_KEYS_MAX = 50_000
_SECOND_US = 1_000_000


class RateQuota(NamedTuple):
    """The remaining calls of a credential; `wait_s` is the time until one more is free."""

    per_minute: int
    remaining: int
    wait_s: int
    is_admitted: bool


class BudgetReport(NamedTuple):
    """The report of a budget to other processes.

    `consumed_us` is the time in which the calls are restored; `ahead_us` is the time until the
    budget is full, and `max_us` the largest allowed value of that.
    """

    calls: int
    consumed_us: int
    ahead_us: int
    max_us: int


class RateLimit:
    """Calls in a period (a minute), and at once, of each key; a rate of 0 turns it off.

    `due` is called when usage must be reported to other processes.
    """

    __slots__ = (
        "_bucket",
        "_burst",
        "_clock",
        "_on_refused",
        "_pending_counts",
        "_process_count",
        "_rate",
        "kind",
        "on_due",
    )

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        kind: str,
        rate: int,
        burst: int,
        clock: Clock,
        on_refused: Callable[[], None],
        period_us: int = MINUTE_US,
    ) -> None:
        self.kind = kind
        self._rate = rate
        self.on_due: Callable[[], None] = _ignore
        self._clock = clock
        self._on_refused = on_refused
        self._burst = burst
        self._process_count = 1
        self._bucket = GcraLimiter(rate, burst, _KEYS_MAX, period_us) if rate else None
        self._pending_counts = PendingCounts(_KEYS_MAX)

    def take(self, key: str) -> RateLimitDecision | None:
        """Count a call; None where nothing is limited."""
        bucket = self._bucket
        if bucket is None:
            return None
        verdict = bucket.take(key, self._clock.steady_us())
        if not verdict.admitted:
            self._on_refused()
        elif self._pending_counts.threshold and self._pending_counts.add(
            bucket.get_budget_name(key)
        ):
            self.on_due()
        return verdict

    def release(self, key: str) -> None:
        """Undo a call that was counted and let in."""
        if self._bucket is not None:
            self._bucket.release(key)
            if self._pending_counts.threshold and self._bucket.get_budget_name(key) == key:
                self._pending_counts.release(key)

    def take_quota(self, key: str) -> RateQuota | None:
        """Count a call, and return what is left; None without a limit."""
        verdict = self.take(key)
        if verdict is None:
            return None
        wait_s = to_retry_seconds(verdict.wait_us)
        return RateQuota(self._rate, verdict.remaining, wait_s, verdict.admitted)

    def check(self, key: str) -> None:
        """Count a call; ApiError(rate_limited) if it is one too many."""
        verdict = self.take(key)
        if verdict is not None and not verdict.admitted:
            raise ApiError(ErrorCode.RATE_LIMITED, retry_after_s=to_retry_seconds(verdict.wait_us))

    # with other processes
    def set_process_count(self, process_count: int) -> None:
        """Set how many processes share the budgets.

        Each of them can admit a whole burst before it learns of the others' usage: that much can be
        owed, and is paid by waiting.
        """
        self._pending_counts.threshold = compute_threshold(self._burst, process_count)
        self._process_count = process_count
        if self._bucket is not None:
            self._bucket.set_debt_max(process_count)

    def list_unreported(self) -> Iterator[tuple[float, str]]:
        """Return the budgets to report to other processes, each with its unreported usage."""
        return self._pending_counts.list_due()

    def get_report(self, name: str, now_us: int) -> BudgetReport:
        """Return the report of a budget."""
        if self._bucket is None:
            raise RuntimeError("a limit that is off has no budgets")
        calls = self._pending_counts.get_count(name)
        return BudgetReport(
            calls,
            self._bucket.get_recovery_us(calls),
            self._bucket.get_refill_us(name, now_us),
            self._process_count * self._bucket.get_recovery_us(self._burst),
        )

    def record_reported(self, name: str, calls: int, full_at_us: int) -> None:
        """Record that so many calls were reported.

        With all usage, the budget is full at that time.
        """
        if self._bucket is not None and self._pending_counts.threshold:
            left = self._pending_counts.mark_reported(name, calls)
            self._bucket.merge_usage(name, full_at_us, left, self._clock.steady_us())


def to_retry_seconds(wait_us: int) -> int:
    """Return whole seconds, at least one: an earlier retry is refused again."""
    return max(1, -(-wait_us // _SECOND_US))


def _ignore() -> None:
    """Do nothing; no other process needs the report."""
