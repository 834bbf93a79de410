"""Limits of callers: calls a minute, failures, and open long polls and streams.

A process counts by the service's clock, at once; with other processes on its store it shares one
limit (`sharing`). A value that callers choose freely (a Client-Id) is never the only limit: its
network and the App-Id as a whole are counted too.
"""

from __future__ import annotations

from florin_server.base.clock import Clock
from florin_server.base.meters import Meters
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.gcra import HOUR_US
from florin_server.limits.service.limit import RateLimit, RateQuota, to_retry_seconds
from florin_server.limits.service.stream_limits import StreamLimits
from florin_server.settings import LimitSettings


class ServiceLimits:
    """All limits of one running service.

    An `origin` identifies one caller: a key, or the network of a public App-Id.
    """

    def __init__(self, settings: LimitSettings, clock: Clock, meters: Meters | None = None) -> None:
        meters = meters or Meters()

        self.rate_limits: list[RateLimit] = []

        def limit(name: str, *, of: str = "") -> RateLimit:
            """Return the limit of a setting; its refusals are counted under that name.

            Where several limits share a setting, `of` distinguishes them.
            """
            rate, burst = (
                getattr(settings, f"{name}_per_minute"),
                getattr(settings, f"{name}_burst"),
            )
            created_limit = RateLimit(
                of or name, rate, burst, clock, meters.create_refusal_counter(name)
            )
            self.rate_limits.append(created_limit)
            return created_limit

        def limit_nonces(name: str, per_hour: int) -> RateLimit:
            """Make a limit of the durable nonces that are taken in an hour, maybe at once."""
            refused = meters.create_refusal_counter(f"nonce_{name}")
            created_limit = RateLimit(
                f"nonce_{name}", per_hour, per_hour or 1, clock, refused, HOUR_US
            )
            self.rate_limits.append(created_limit)
            return created_limit

        self._key_limit = limit("key")
        self._client_limit = limit("app")
        self._address_limit = limit("address")
        self._app_limit = limit("app_total")
        self._options_limit = limit("options")
        self._confirm_limit = limit("payment", of="confirm")
        self._signed_limit = limit("payment", of="signed")
        self._unproven_limit = limit("payment_total")
        self._request_limit = limit("payment_total", of="transaction_request")
        self._open_address_limit = limit("payment_total", of="open_addresses")
        self._claim_limit = limit("payment_total", of="claims")
        self._cancel_limit = limit("payment", of="cancel")
        self._form_limit = limit("payment", of="form")
        self._failure_limit = limit("failure")
        self._page_limit = limit("page")
        self._guard_limit = limit("guard")
        self._nonce_limits = {
            name: limit_nonces(name, getattr(settings, f"nonce_{name}_per_hour"))
            for name in ("payer", "address", "key", "partner")
        }
        self.streams = StreamLimits(settings, meters)

    def count_key_call(self, credential: str) -> RateQuota | None:
        """Count a call with a key; None where those are not limited."""
        return self._key_limit.take_quota(credential)

    def count_client_call(self, app_id: str, client: str, network: str) -> RateQuota | None:
        """Count a call with an App-Id: the tightest of its three limits applies.

        `client` names the Client-Id with its App-Id; knowing it is not enough to use it up from
        elsewhere. A call that one limit refuses does not count in the next, so that a caller over
        its own limit does not use up shared ones.
        """
        tightest: RateQuota | None = None
        for limit, key in (
            (self._address_limit, network),
            (self._client_limit, _join_key(client, network)),
            (self._app_limit, app_id),
        ):
            quota = limit.take_quota(key)
            if quota is None:
                continue
            if not quota.is_admitted:
                return quota
            if tightest is None or (quota.remaining, -quota.wait_s) < (
                tightest.remaining,
                -tightest.wait_s,
            ):
                tightest = quota
        return tightest

    def count_open_call(self, network: str) -> None:
        """Count a call that needs no credential; ApiError(rate_limited)."""
        self._address_limit.check(network)

    def count_options(self, payment_id: str, origin: str) -> None:
        """Count an options call; ApiError(rate_limited)."""
        self._options_limit.check(_join_key(payment_id, origin))

    def count_transaction_request(self, payment_id: str) -> None:
        """Count a transaction that any caller fetches by a payment's link; ApiError(rate_limited).

        Each calls nodes, and callers can name any account.
        """
        self._request_limit.check(payment_id)

    def count_address(self, payment_id: str) -> None:
        """Count a request for addresses of a payment by any caller; ApiError(rate_limited).

        Each calls nodes.
        """
        self._open_address_limit.check(payment_id)

    def count_claim(self, payment_id: str) -> None:
        """Count a claim for money of a payment by any caller; ApiError(rate_limited)."""
        self._claim_limit.check(payment_id)

    def count_confirm(self, payment_id: str, origin: str, *, needs_chain: bool) -> None:
        """Count a confirm with new content; ApiError(rate_limited).

        With `needs_chain` only a chain can judge it.
        """
        self._confirm_limit.check(_join_key(payment_id, origin))
        if needs_chain:
            self._unproven_limit.check(payment_id)

    def count_signed_confirm(self, payment_id: str, payer: str) -> None:
        """Count a confirm that its payer has signed, which no other caller can make."""
        self._signed_limit.check(_join_key(payment_id, payer))

    def count_cancel(self, payment_id: str, origin: str) -> None:
        """Count an attempt to call a payment off; ApiError(rate_limited)."""
        self._cancel_limit.check(_join_key(payment_id, origin))

    def count_form(self, ticket: str, peer: str) -> None:
        """Count a submission of one form about a buyer; ApiError(rate_limited)."""
        self._form_limit.check(_join_key(ticket, get_peer_network(peer)))

    def count_failure(self, peer: str) -> None:
        """Count a credential that proved nothing; ApiError(rate_limited)."""
        self._failure_limit.check(get_peer_network(peer))

    def take_nonce(self, payer: str, origin: str, partner_id: str, *, is_key: bool) -> bool:
        """Count a durable nonce; return False if a limit is reached.

        `is_key` says whether the origin is a key or a network. A payer is counted for each origin,
        because anyone can name another's account. A nonce that one limit refuses does not count in
        the next.
        """
        caller = self._nonce_limits["key" if is_key else "address"]
        taken = (
            (self._nonce_limits["payer"], _join_key(payer, origin)),
            (caller, origin),
            (self._nonce_limits["partner"], partner_id),
        )
        verdicts = (limit.take(key) for limit, key in taken)
        return all(verdict is None or verdict.admitted for verdict in verdicts)

    def count_page(self, peer: str) -> int:
        """Count a buyer's page: 0, or the seconds after which the next one is answered."""
        verdict = self._page_limit.take(get_peer_network(peer))
        return 0 if verdict is None or verdict.admitted else to_retry_seconds(verdict.wait_us)

    def count_idempotency_key(self, network: str) -> None:
        """Count an idempotency key of an App-Id that will be kept; ApiError(rate_limited)."""
        self._guard_limit.check(network)

    def release_idempotency_key(self, network: str) -> None:
        """Undo that for a key that was not kept after all."""
        self._guard_limit.release(network)


def _join_key(subject: str, caller: str) -> str:
    return f"{subject} {caller}"
