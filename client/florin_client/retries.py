"""Decide whether and when a failed call is retried; this module does not wait."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from florin_client.errors import FlorinError

_LOST_CODES = frozenset({grpc.StatusCode.UNAVAILABLE})
# further status of a stream whose server stops; calls that the client ended are not checked
_LOST_STREAM_CODES = _LOST_CODES | {grpc.StatusCode.CANCELLED}


@dataclass(frozen=True, slots=True)
class Retries:
    """Limits on the retries of calls without a response: their time and number.

    `patience_s` limits the time from the first failure on, within the call's own timeout.
    `stream_patience_s` does so for streams, from their last message on. 0 disables retries. Delays
    double from `first_s` to `longest_s`, and each is shortened by up to a half, so that clients
    that lost their connections together do not return together.
    """

    patience_s: float = 15.0
    stream_patience_s: float = 300.0
    first_s: float = 0.2
    longest_s: float = 5.0


@dataclass(slots=True)
class RetryState:
    """The attempts of one call. `get_remaining_s` is None without a deadline."""

    retries: Retries
    timeout_s: float | None
    clock: Callable[[], float]
    rng: random.Random
    is_stream: bool = False
    _count: int = 0
    _failing_since: float | None = None
    _end: float | None = field(init=False)

    def __post_init__(self) -> None:
        self._end = None if self.timeout_s is None else self.clock() + self.timeout_s

    def get_remaining_s(self) -> float | None:
        """Return the seconds until the call's deadline."""
        return None if self._end is None else max(0.0, self._end - self.clock())

    def record_response(self) -> None:
        """Reset the failures: a stream with a new message works."""
        self._count, self._failing_since = 0, None

    def get_resume_delay_s(self) -> float:
        """Return the wait before a stream that ended cleanly, but too early, is resumed."""
        return self.retries.first_s

    def get_retry_delay_s(self, error: FlorinError) -> float:
        """Return the seconds to wait before the next attempt; raise the error after the last.

        Retried are calls that got no decision from the server, and calls for which the server gives
        a wait; never sooner than that wait.
        """
        lost = error.status in (_LOST_STREAM_CODES if self.is_stream else _LOST_CODES)
        limited = error.status is grpc.StatusCode.RESOURCE_EXHAUSTED
        if not lost and not (limited and error.retry_after_s is not None):
            raise error from None
        now = self.clock()
        if self._failing_since is None:
            self._failing_since = now
        usual = min(self.retries.longest_s, self.retries.first_s * 2.0**self._count)
        self._count += 1
        delay = max(usual * self.rng.uniform(0.5, 1.0), error.retry_after_s or 0.0)
        patience = self.retries.stream_patience_s if self.is_stream else self.retries.patience_s
        ends = [self._failing_since + patience, *([] if self._end is None else [self._end])]
        if now + delay >= min(ends):
            raise error from None
        return delay
