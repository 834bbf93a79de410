"""The generic cell rate algorithm: a burst of calls, then one call per interval, exactly.

For each key it keeps one number: the time at which the budget is full again. For any arrivals, a
key gets at most `burst` calls plus one for each whole interval that has passed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
# two at least, so that stale keys run out while others come
_EVICTION_SCANS = 4


class RateLimitDecision(NamedTuple):
    """The decision about a call; `wait_us` is the time until one more call is admitted than now."""

    admitted: bool
    remaining: int
    wait_us: int


# the name of the shared budget of keys for which there was no room; no caller can write it
SHARED_BUDGET = "\0"


class GcraLimiter:
    """The budgets of all keys of one kind; times are microseconds.

    The limiter drops keys with a full budget as others arrive, and no other keys: a used-up budget
    stays used up for any number of new keys. Beyond `keys_max` all new keys share one budget.

    Usage elsewhere of the same budget can arrive later (`merge_usage`). It is then charged beyond
    the burst, at most as much as `set_debt_max` allows.
    """

    __slots__ = ("_keys_max", "_most", "_period_us", "_rate", "_room", "_shared", "_whole")

    def __init__(self, rate: int, burst: int, keys_max: int, period_us: int = MINUTE_US) -> None:
        """Admit `rate` calls in each period, and `burst` at once."""
        if rate < 1 or burst < 1 or keys_max < 1:
            raise ValueError("a rate, a burst and the keys are at least 1")
        self._rate = rate
        self._period_us = period_us
        self._keys_max = keys_max
        # times are multiplied by the rate, so that an interval is a whole number: rounding never
        # admits or refuses a call
        self._room = self._most = burst * period_us
        self._whole: OrderedDict[str, int] = OrderedDict()
        self._shared = 0

    def __len__(self) -> int:
        """Return how many keys are stored."""
        return len(self._whole)

    def take(self, key: str, now_us: int) -> RateLimitDecision:
        """Take one call from a key's budget, if it has one left."""
        now = now_us * self._rate
        full_now = self._whole.get(key)
        own = full_now is not None or self._make_room(now)
        if full_now is None:
            full_now = now if own else self._shared
        # a clock that was set back must not make a key wait for its former time
        used = min(max(full_now - now, 0), self._most)
        admitted = used + self._period_us <= self._room
        if admitted:
            used += self._period_us
        if not own:
            self._shared = now + used
        else:
            self._whole[key] = now + used
        left = max(0, self._room - used) // self._period_us
        # rounded up to whole microseconds, so that it is never too early
        wait_us = -(-(used - (self._room - (left + 1) * self._period_us)) // self._rate)
        return RateLimitDecision(admitted, left, wait_us)

    def release(self, key: str) -> None:
        """Undo one call that was let in and came to nothing.

        No budget grows beyond its burst. What shared the budget of all new keys stays taken.
        """
        if key in self._whole:
            self._whole[key] -= self._period_us

    def set_debt_max(self, bursts: int) -> None:
        """Set the largest debt in bursts: 1 if no other process uses the same budgets."""
        self._most = bursts * self._room

    def get_budget_name(self, key: str) -> str:
        """Return the name of the budget of a key: its own, or the shared one."""
        return key if key in self._whole else SHARED_BUDGET

    def get_refill_us(self, name: str, now_us: int) -> int:
        """Return the time until a budget is full again, at least 0."""
        used = self._get_full_at(name) - now_us * self._rate
        return -(-min(max(used, 0), self._most) // self._rate)

    def get_recovery_us(self, calls: int) -> int:
        """Return the time in which so many calls are restored, rounded up."""
        return -(-calls * self._period_us // self._rate)

    def merge_usage(self, name: str, full_at_us: int, calls: int, now_us: int) -> None:
        """Use the time at which a budget is full, including usage elsewhere.

        `calls` were taken here and are not counted in it.
        """
        now = now_us * self._rate
        total = max(self._get_full_at(name), full_at_us * self._rate + calls * self._period_us)
        total = min(total, now + self._most)
        if name == SHARED_BUDGET:
            self._shared = total
        elif name in self._whole or (total > now and self._make_room(now)):
            self._whole[name] = total

    def _get_full_at(self, name: str) -> int:
        return self._shared if name == SHARED_BUDGET else self._whole.get(name, 0)

    def _make_room(self, now: int) -> bool:
        """Check a few keys in turn and drop the stale ones; return False if there is no room."""
        for _ in range(_EVICTION_SCANS):
            key = next(iter(self._whole), None)
            if key is None:
                break
            if self._whole[key] <= now:
                del self._whole[key]
            else:
                # a key that is used often must not hide the stale keys behind it
                self._whole.move_to_end(key)
        return len(self._whole) < self._keys_max
