"""Whether a call that failed is made again, and when: the decision, without any waiting."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from florin_client.errors import FlorinError

_LOST = frozenset({grpc.StatusCode.UNAVAILABLE})
# how a stream ends whose server is stopped, besides; a call of ours that we ended is not looked at
_LOST_STREAM = _LOST | {grpc.StatusCode.CANCELLED}


@dataclass(frozen=True, slots=True)
class Retries:
    """How long, and at what pace, a call is made again that got no answer.

    `patience_s` bounds the time from the first failure on, within the call's own timeout;
    `stream_patience_s` does so for streams, from their last message on. 0 means never again.
    Delays double from `first_s` to `longest_s`, and each is shortened by up to a half, so that
    clients that were cut off together do not come back together.
    """

    patience_s: float = 15.0
    stream_patience_s: float = 300.0
    first_s: float = 0.2
    longest_s: float = 5.0


@dataclass(slots=True)
class Attempts:
    """The attempts of one call. `left_s` is None without a deadline."""

    retries: Retries
    timeout_s: float | None
    clock: Callable[[], float]
    chance: random.Random
    stream: bool = False
    _count: int = 0
    _failing_since: float | None = None
    _end: float | None = field(init=False)

    def __post_init__(self) -> None:
        self._end = None if self.timeout_s is None else self.clock() + self.timeout_s

    def left_s(self) -> float | None:
        """Seconds until the call's deadline."""
        return None if self._end is None else max(0.0, self._end - self.clock())

    def answered(self) -> None:
        """A stream that tells something is not failing any more."""
        self._count, self._failing_since = 0, None

    def pause_s(self) -> float:
        """Seconds to wait before a stream is taken up that ended in good order, but too early."""
        return self.retries.first_s

    def delay_s(self, error: FlorinError) -> float:
        """Seconds to wait before the next attempt; raises the error if there is to be none.

        Only what never was the server's verdict is tried again, and what the server itself gives a
        time for; never sooner than that.
        """
        lost = error.status in (_LOST_STREAM if self.stream else _LOST)
        limited = error.status is grpc.StatusCode.RESOURCE_EXHAUSTED
        if not lost and not (limited and error.retry_after_s is not None):
            raise error from None
        now = self.clock()
        if self._failing_since is None:
            self._failing_since = now
        usual = min(self.retries.longest_s, self.retries.first_s * 2.0**self._count)
        self._count += 1
        delay = max(usual * self.chance.uniform(0.5, 1.0), error.retry_after_s or 0.0)
        patience = self.retries.stream_patience_s if self.stream else self.retries.patience_s
        ends = [self._failing_since + patience, *([] if self._end is None else [self._end])]
        if now + delay >= min(ends):
            raise error from None
        return delay
