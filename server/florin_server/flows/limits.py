"""How much is taken from whom: calls a minute, failures, and how many answers are held.

One process counts for itself, by the service's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from florin_server.clock import Clock
from florin_server.config import LimitSettings
from florin_server.domain.addresses import network_of
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.gcra import Bucket, Verdict

# of each kind; a key takes about 200 bytes
_KEYS_MAX = 50_000
_SECOND_US = 1_000_000

Release = Callable[[], None]


class Quota(NamedTuple):
    """What a credential has left of its calls; `wait_s` is the time until one more is free."""

    per_minute: int
    left: int
    wait_s: int
    admitted: bool


class _Limit:
    """One kind of limit; a rate of 0 turns it off."""

    __slots__ = ("_bucket", "_clock", "per_minute")

    def __init__(self, per_minute: int, burst: int, clock: Clock) -> None:
        self._clock = clock
        self._bucket = Bucket(per_minute, burst, _KEYS_MAX) if per_minute else None
        self.per_minute = per_minute

    def take(self, key: str) -> Verdict | None:
        """Counts a call; None where nothing is limited."""
        return None if self._bucket is None else self._bucket.take(key, self._clock.now_us())

    def check(self, key: str) -> None:
        """Counts a call; FlorinError(rate_limited) if it is one too many."""
        verdict = self.take(key)
        if verdict is not None and not verdict.admitted:
            raise _over(verdict)


class Limits:
    """All limits of one running service."""

    def __init__(self, settings: LimitSettings, clock: Clock) -> None:
        s = settings
        self._keys = _Limit(s.key_per_minute, s.key_burst, clock)
        self._apps = _Limit(s.app_per_minute, s.app_burst, clock)
        self._confirms = _Limit(s.payment_per_minute, s.payment_burst, clock)
        self._cancels = _Limit(s.payment_per_minute, s.payment_burst, clock)
        self._forms = _Limit(s.payment_per_minute, s.payment_burst, clock)
        self._failures = _Limit(s.failure_per_minute, s.failure_burst, clock)
        self._pages = _Limit(s.page_per_minute, s.page_burst, clock)
        self._held_by_credential = _Held(s.held_per_credential)
        self._held_by_payment = _Held(s.held_per_payment)

    def call(self, credential: str, *, app: bool) -> Quota | None:
        """Counts a call of a credential; None where such credentials are not limited."""
        limit = self._apps if app else self._keys
        verdict = limit.take(credential)
        if verdict is None:
            return None
        wait_s = _seconds(verdict.wait_us)
        return Quota(limit.per_minute, verdict.left, wait_s, verdict.admitted)

    def confirm(self, payment_id: str) -> None:
        """Counts a confirm that hands in something new; FlorinError(rate_limited)."""
        self._confirms.check(payment_id)

    def cancel(self, payment_id: str) -> None:
        """Counts an attempt to call a payment off; FlorinError(rate_limited)."""
        self._cancels.check(payment_id)

    def form(self, ticket: str) -> None:
        """Counts what is handed in with one form about a buyer; FlorinError(rate_limited)."""
        self._forms.check(ticket)

    def failed(self, peer: str) -> None:
        """Counts a credential that proved nothing; FlorinError(rate_limited)."""
        self._failures.check(network_of(peer))

    def page(self, peer: str) -> int:
        """Counts a buyer's page: 0, or the seconds after which the next one is answered."""
        verdict = self._pages.take(network_of(peer))
        return 0 if verdict is None or verdict.admitted else _seconds(verdict.wait_us)

    def hold(self, credential: str, payment_id: str | None) -> Release:
        """Counts an answer that is held until the release is called; FlorinError(rate_limited)."""
        own = self._held_by_credential.take(credential)
        if payment_id is None:
            return own
        try:
            shared = self._held_by_payment.take(payment_id)
        except FlorinError:
            own()
            raise

        def release() -> None:
            own()
            shared()

        return release


class _Held:
    """How many answers are held now, by key; a limit of 0 counts nothing."""

    __slots__ = ("_counts", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    def take(self, key: str) -> Release:
        if not self._most:
            return _nothing
        if self._counts[key] >= self._most:
            # nobody knows when one ends
            raise FlorinError(Code.RATE_LIMITED, "Too many held answers", retry_after_s=1)
        self._counts[key] += 1

        def release() -> None:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

        return release


def _nothing() -> None:
    pass


def _over(verdict: Verdict) -> FlorinError:
    return FlorinError(Code.RATE_LIMITED, retry_after_s=_seconds(verdict.wait_us))


def _seconds(wait_us: int) -> int:
    """Whole seconds, at least one: who comes back earlier comes in vain."""
    return max(1, -(-wait_us // _SECOND_US))
