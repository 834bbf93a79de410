"""The generic cell rate algorithm: so many calls at once, then one each interval, exactly.

For each key one number is kept: the time at which its budget would be whole again. Whatever the
arrivals are, a key gets at most `burst` calls plus one for each whole interval that has passed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
# two at least, so that stale keys run out while others come
_LOOKS = 4


class Verdict(NamedTuple):
    """What a call was told; `wait_us` is the time until one more will be let in than now."""

    admitted: bool
    left: int
    wait_us: int


# the name of the budget that keys share for which there was no room; no caller can write it
COMMON = "\0"


class Bucket:
    """The budgets of all keys of one kind; times are microseconds.

    Keys whose budget is whole are forgotten as others come, and no others: what somebody used up
    stays used up, however many keys are made. Beyond `keys_max` all new keys share one budget.

    What was taken of the same budget elsewhere may be learnt later (`learn`), and is paid for then,
    beyond the burst: at most as much as `owe` allows.
    """

    __slots__ = ("_keys_max", "_most", "_period_us", "_rate", "_room", "_shared", "_whole")

    def __init__(self, rate: int, burst: int, keys_max: int, period_us: int = MINUTE_US) -> None:
        """Admit `rate` calls in each period, and `burst` at once."""
        if rate < 1 or burst < 1 or keys_max < 1:
            raise ValueError("a rate, a burst and the keys are at least 1")
        self._rate = rate
        self._period_us = period_us
        self._keys_max = keys_max
        # times are multiplied by the rate, so that an interval is a whole number: no call is
        # admitted or refused by rounding
        self._room = self._most = burst * period_us
        self._whole: OrderedDict[str, int] = OrderedDict()
        self._shared = 0

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._whole)

    def take(self, key: str, now_us: int) -> Verdict:
        """Takes one call from a key's budget, if it has one left."""
        now = now_us * self._rate
        whole = self._whole.get(key)
        own = whole is not None or self._make_room(now)
        if whole is None:
            whole = now if own else self._shared
        # a clock that was set back must not keep a key waiting for what it once was
        used = min(max(whole - now, 0), self._most)
        admitted = used + self._period_us <= self._room
        if admitted:
            used += self._period_us
        if not own:
            self._shared = now + used
        else:
            self._whole[key] = now + used
        left = max(0, self._room - used) // self._period_us
        # rounded up to whole microseconds: not earlier than it is true
        wait_us = -(-(used - (self._room - (left + 1) * self._period_us)) // self._rate)
        return Verdict(admitted, left, wait_us)

    def give_back(self, key: str) -> None:
        """Undoes one call that was let in and came to nothing.

        No budget grows beyond its burst. What shared the budget of all new keys stays taken.
        """
        if key in self._whole:
            self._whole[key] -= self._period_us

    def owe(self, bursts: int) -> None:
        """Sets how much may be used up at most, in bursts: one, if nobody else takes of them."""
        self._most = bursts * self._room

    def name_of(self, key: str) -> str:
        """The budget that a key's calls are taken from: its own, or the one that others share."""
        return key if key in self._whole else COMMON

    def ahead_us(self, name: str, now_us: int) -> int:
        """How far away the time is at which a budget is whole, at least 0."""
        used = self._of(name) - now_us * self._rate
        return -(-min(max(used, 0), self._most) // self._rate)

    def span_us(self, calls: int) -> int:
        """The time in which so many calls come back, rounded up."""
        return -(-calls * self._period_us // self._rate)

    def learn(self, name: str, whole_us: int, calls: int, now_us: int) -> None:
        """Takes over when a budget is whole, by what was taken elsewhere too.

        `calls` were taken here and not counted in it.
        """
        now = now_us * self._rate
        whole = max(self._of(name), whole_us * self._rate + calls * self._period_us)
        whole = min(whole, now + self._most)
        if name == COMMON:
            self._shared = whole
        elif name in self._whole or (whole > now and self._make_room(now)):
            self._whole[name] = whole

    def _of(self, name: str) -> int:
        return self._shared if name == COMMON else self._whole.get(name, 0)

    def _make_room(self, now: int) -> bool:
        """Looks at a few keys in turn and forgets the stale ones; False if there is no room."""
        for _ in range(_LOOKS):
            key = next(iter(self._whole), None)
            if key is None:
                break
            if self._whole[key] <= now:
                del self._whole[key]
            else:
                # one that is used a lot must not hide the stale ones behind it
                self._whole.move_to_end(key)
        return len(self._whole) < self._keys_max
