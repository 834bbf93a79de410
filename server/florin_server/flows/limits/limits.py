"""How much is taken from whom: calls a minute, failures, and how many answers are held.

One process counts for itself, by the service's clock. What a caller chooses freely (a Client-Id)
never stands alone: behind it count the address that it comes from, and the App-Id as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from florin_server.clock import Clock
from florin_server.config import LimitSettings
from florin_server.domain.addresses import network_of
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.gcra import Bucket, Verdict
from florin_server.flows.limits.held_answers import Held
from florin_server.meters import Meters

# of each kind; a key takes about 200 bytes
_KEYS_MAX = 50_000
_SECOND_US = 1_000_000


class Quota(NamedTuple):
    """What a credential has left of its calls; `wait_s` is the time until one more is free."""

    per_minute: int
    left: int
    wait_s: int
    admitted: bool


class _Limit:
    """One kind of limit; a rate of 0 turns it off."""

    __slots__ = ("_bucket", "_clock", "_refused", "per_minute")

    def __init__(
        self, per_minute: int, burst: int, clock: Clock, refused: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._refused = refused
        self._bucket = Bucket(per_minute, burst, _KEYS_MAX) if per_minute else None
        self.per_minute = per_minute

    def take(self, key: str) -> Verdict | None:
        """Counts a call; None where nothing is limited."""
        if self._bucket is None:
            return None
        verdict = self._bucket.take(key, self._clock.now_us())
        if not verdict.admitted:
            self._refused()
        return verdict

    def give_back(self, key: str) -> None:
        """Undoes a call that was counted and let in."""
        if self._bucket is not None:
            self._bucket.give_back(key)

    def quota(self, key: str) -> Quota | None:
        """The same, as it is told."""
        verdict = self.take(key)
        if verdict is None:
            return None
        wait_s = _seconds(verdict.wait_us)
        return Quota(self.per_minute, verdict.left, wait_s, verdict.admitted)

    def check(self, key: str) -> None:
        """Counts a call; FlorinError(rate_limited) if it is one too many."""
        verdict = self.take(key)
        if verdict is not None and not verdict.admitted:
            raise _over(verdict)


class Limits:
    """All limits of one running service.

    An `origin` is who counts as one caller: a key, or the network that a public App-Id came from.
    """

    def __init__(self, settings: LimitSettings, clock: Clock, meters: Meters | None = None) -> None:
        meters = meters or Meters()

        def limit(name: str) -> _Limit:
            """The limit of a name of the settings; what it refuses is counted under that."""
            rate, burst = (
                getattr(settings, f"{name}_per_minute"),
                getattr(settings, f"{name}_burst"),
            )
            return _Limit(rate, burst, clock, meters.refusal(name))

        self._keys = limit("key")
        self._clients = limit("app")
        self._addresses = limit("address")
        self._apps = limit("app_total")
        self._options = limit("options")
        self._confirms = limit("payment")
        self._signed = limit("payment")
        self._unknown = limit("payment_total")
        self._cancels = limit("payment")
        self._forms = limit("payment")
        self._failures = limit("failure")
        self._pages = limit("page")
        self._guards = limit("guard")
        self.held = Held(settings, meters)

    def key(self, credential: str) -> Quota | None:
        """Counts a call with a key; None where those are not limited."""
        return self._keys.quota(credential)

    def client(self, app_id: str, client: str, network: str) -> Quota | None:
        """Counts a call with an App-Id: the tightest of the three limits that hold for it.

        `client` names the Client-Id with its App-Id; whoever learns one cannot use it up from
        elsewhere. What one limit refuses is not taken from the
        next, so that whoever is over its own does not use up what it shares with others.
        """
        tightest: Quota | None = None
        for limit, key in (
            (self._addresses, network),
            (self._clients, _of(client, network)),
            (self._apps, app_id),
        ):
            quota = limit.quota(key)
            if quota is None:
                continue
            if not quota.admitted:
                return quota
            if tightest is None or (quota.left, -quota.wait_s) < (tightest.left, -tightest.wait_s):
                tightest = quota
        return tightest

    def open_call(self, network: str) -> None:
        """Counts a call that needs no credential; FlorinError(rate_limited)."""
        self._addresses.check(network)

    def options(self, payment_id: str, origin: str) -> None:
        """Counts a look at what a payment can be paid with; FlorinError(rate_limited)."""
        self._options.check(_of(payment_id, origin))

    def confirm(self, payment_id: str, origin: str, *, asks: bool) -> None:
        """Counts a confirm that hands in something new; FlorinError(rate_limited).

        With `asks` only a chain can tell what it is worth.
        """
        self._confirms.check(_of(payment_id, origin))
        if asks:
            self._unknown.check(payment_id)

    def signed(self, payment_id: str, payer: str) -> None:
        """Counts a confirm that its payer has signed, which nobody else can do for it."""
        self._signed.check(_of(payment_id, payer))

    def cancel(self, payment_id: str, origin: str) -> None:
        """Counts an attempt to call a payment off; FlorinError(rate_limited)."""
        self._cancels.check(_of(payment_id, origin))

    def form(self, ticket: str, peer: str) -> None:
        """Counts what is handed in with one form about a buyer; FlorinError(rate_limited)."""
        self._forms.check(_of(ticket, network_of(peer)))

    def failed(self, peer: str) -> None:
        """Counts a credential that proved nothing; FlorinError(rate_limited)."""
        self._failures.check(network_of(peer))

    def page(self, peer: str) -> int:
        """Counts a buyer's page: 0, or the seconds after which the next one is answered."""
        verdict = self._pages.take(network_of(peer))
        return 0 if verdict is None or verdict.admitted else _seconds(verdict.wait_us)

    def guard(self, network: str) -> None:
        """Counts an idempotency key of an App-Id that will be kept; FlorinError(rate_limited)."""
        self._guards.check(network)

    def unguard(self, network: str) -> None:
        """Undoes that for a key that was not kept after all."""
        self._guards.give_back(network)


def _of(what: str, who: str) -> str:
    return f"{what} {who}"


def _over(verdict: Verdict) -> FlorinError:
    return FlorinError(Code.RATE_LIMITED, retry_after_s=_seconds(verdict.wait_us))


def _seconds(wait_us: int) -> int:
    """Whole seconds, at least one: who comes back earlier comes in vain."""
    return max(1, -(-wait_us // _SECOND_US))
