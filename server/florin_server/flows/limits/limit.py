"""One kind of limit: so many calls of each key, decided at once, and told to other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from florin_server.clock import Clock
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.gcra import MINUTE_US, Bucket, Verdict
from florin_server.domain.tally import Tally, share_of

# of each kind; a key takes about 200 bytes, and as much again where it is shared
_KEYS_MAX = 50_000
_SECOND_US = 1_000_000


class Quota(NamedTuple):
    """What a credential has left of its calls; `wait_s` is the time until one more is free."""

    per_minute: int
    left: int
    wait_s: int
    admitted: bool


class Taken(NamedTuple):
    """What others are told of a budget.

    `taken_us` is the time in which the calls come back; `ahead_us` is how far away the time is at
    which it is whole, and `most_us` how far away that may be.
    """

    calls: int
    taken_us: int
    ahead_us: int
    most_us: int


class Limit:
    """Calls in a period (a minute), and at once, of each key; a rate of 0 turns it off.

    `due` is called when others are to be told of what was taken.
    """

    __slots__ = (
        "_bucket",
        "_burst",
        "_clock",
        "_processes",
        "_rate",
        "_refused",
        "_tally",
        "due",
        "kind",
    )

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        kind: str,
        rate: int,
        burst: int,
        clock: Clock,
        refused: Callable[[], None],
        period_us: int = MINUTE_US,
    ) -> None:
        self.kind = kind
        self._rate = rate
        self.due: Callable[[], None] = _nobody
        self._clock = clock
        self._refused = refused
        self._burst = burst
        self._processes = 1
        self._bucket = Bucket(rate, burst, _KEYS_MAX, period_us) if rate else None
        self._tally = Tally(_KEYS_MAX)

    def take(self, key: str) -> Verdict | None:
        """Counts a call; None where nothing is limited."""
        bucket = self._bucket
        if bucket is None:
            return None
        verdict = bucket.take(key, self._clock.steady_us())
        if not verdict.admitted:
            self._refused()
        elif self._tally.share and self._tally.add(bucket.name_of(key)):
            self.due()
        return verdict

    def give_back(self, key: str) -> None:
        """Undoes a call that was counted and let in."""
        if self._bucket is not None:
            self._bucket.give_back(key)
            if self._tally.share and self._bucket.name_of(key) == key:
                self._tally.take_back(key)

    def quota(self, key: str) -> Quota | None:
        """Counts a call, and says what is left; None where nothing is limited."""
        verdict = self.take(key)
        if verdict is None:
            return None
        wait_s = seconds(verdict.wait_us)
        return Quota(self._rate, verdict.left, wait_s, verdict.admitted)

    def check(self, key: str) -> None:
        """Counts a call; FlorinError(rate_limited) if it is one too many."""
        verdict = self.take(key)
        if verdict is not None and not verdict.admitted:
            raise FlorinError(Code.RATE_LIMITED, retry_after_s=seconds(verdict.wait_us))

    # with other processes
    def among(self, processes: int) -> None:
        """Sets how many processes take of the same budgets.

        Each of them may let a whole burst through before it hears of the others: so much may be
        owed, and is paid for by waiting.
        """
        self._tally.share = share_of(self._burst, processes)
        self._processes = processes
        if self._bucket is not None:
            self._bucket.owe(processes)

    def untold(self) -> Iterator[tuple[float, str]]:
        """Budgets of which others are to be told, each with how much there is to tell."""
        return self._tally.due()

    def taken(self, name: str, now_us: int) -> Taken:
        """What others are to be told of a budget."""
        if self._bucket is None:
            raise RuntimeError("a limit that is off has no budgets")
        calls = self._tally.count(name)
        return Taken(
            calls,
            self._bucket.span_us(calls),
            self._bucket.ahead_us(name, now_us),
            self._processes * self._bucket.span_us(self._burst),
        )

    def told(self, name: str, calls: int, whole_us: int) -> None:
        """Others were told of so many calls; by what all took, the budget is whole at that time."""
        if self._bucket is not None and self._tally.share:
            left = self._tally.told(name, calls)
            self._bucket.learn(name, whole_us, left, self._clock.steady_us())


def seconds(wait_us: int) -> int:
    """Whole seconds, at least one: who comes back earlier comes in vain."""
    return max(1, -(-wait_us // _SECOND_US))


def _nobody() -> None:
    """There is nobody to tell."""
