"""How much is taken from whom: calls a minute, failures, and how many answers are held.

A process counts by the service's clock, at once; with others that share its store it keeps one
limit (`sharing`). What a caller chooses freely (a Client-Id)
never stands alone: behind it count the address that it comes from, and the App-Id as a whole.
"""

from __future__ import annotations

from florin_server.clock import Clock
from florin_server.config import LimitSettings
from florin_server.domain.addresses import network_of
from florin_server.domain.gcra import HOUR_US
from florin_server.flows.limits.held_answers import Held
from florin_server.flows.limits.limit import Limit, Quota, seconds
from florin_server.meters import Meters


class Limits:
    """All limits of one running service.

    An `origin` is who counts as one caller: a key, or the network that a public App-Id came from.
    """

    def __init__(self, settings: LimitSettings, clock: Clock, meters: Meters | None = None) -> None:
        meters = meters or Meters()

        self.rates: list[Limit] = []

        def limit(name: str, *, of: str = "") -> Limit:
            """The limit of a name of the settings; what it refuses is counted under that.

            Where several have one setting, `of` tells them apart.
            """
            rate, burst = (
                getattr(settings, f"{name}_per_minute"),
                getattr(settings, f"{name}_burst"),
            )
            made = Limit(of or name, rate, burst, clock, meters.refusal(name))
            self.rates.append(made)
            return made

        def limit_nonces(name: str, per_hour: int) -> Limit:
            """Make a limit of the durable nonces that are taken in an hour, maybe at once."""
            refused = meters.refusal(f"nonce_{name}")
            made = Limit(f"nonce_{name}", per_hour, per_hour or 1, clock, refused, HOUR_US)
            self.rates.append(made)
            return made

        self._keys = limit("key")
        self._clients = limit("app")
        self._addresses = limit("address")
        self._apps = limit("app_total")
        self._options = limit("options")
        self._confirms = limit("payment", of="confirm")
        self._signed = limit("payment", of="signed")
        self._unknown = limit("payment_total")
        self._cancels = limit("payment", of="cancel")
        self._forms = limit("payment", of="form")
        self._failures = limit("failure")
        self._pages = limit("page")
        self._guards = limit("guard")
        self._nonces = {
            name: limit_nonces(name, getattr(settings, f"nonce_{name}_per_hour"))
            for name in ("payer", "address", "key", "partner")
        }
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

    def take_nonce(self, payer: str, origin: str, partner_id: str, *, is_key: bool) -> bool:
        """Count a durable nonce that is handed out; False if it is one too many of somebody.

        `is_key` says whether the origin is a key or a network. A payer is counted for each origin:
        anybody may name the account of somebody else. What one limit refuses is not taken from the
        next.
        """
        caller = self._nonces["key" if is_key else "address"]
        taken = (
            (self._nonces["payer"], _of(payer, origin)),
            (caller, origin),
            (self._nonces["partner"], partner_id),
        )
        verdicts = (limit.take(key) for limit, key in taken)
        return all(verdict is None or verdict.admitted for verdict in verdicts)

    def page(self, peer: str) -> int:
        """Counts a buyer's page: 0, or the seconds after which the next one is answered."""
        verdict = self._pages.take(network_of(peer))
        return 0 if verdict is None or verdict.admitted else seconds(verdict.wait_us)

    def guard(self, network: str) -> None:
        """Counts an idempotency key of an App-Id that will be kept; FlorinError(rate_limited)."""
        self._guards.check(network)

    def unguard(self, network: str) -> None:
        """Undoes that for a key that was not kept after all."""
        self._guards.give_back(network)


def _of(what: str, who: str) -> str:
    return f"{what} {who}"
