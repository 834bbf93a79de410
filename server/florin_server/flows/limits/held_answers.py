"""How many answers are held at a time, and for whom.

Merchants are counted apart from wallets: whoever knows a payment may watch it, and must not keep
its merchant, or its buyer, from doing so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from florin_server.config import LimitSettings
from florin_server.domain.errors import Code, FlorinError

Release = Callable[[], None]


class Held:
    """All answers that one process holds; every call returns what gives its place back.

    FlorinError(rate_limited) if there is none.
    """

    def __init__(self, settings: LimitSettings) -> None:
        s = settings
        self._credentials = _Places(s.held_per_credential)
        self._addresses = _Places(s.held_per_address)
        self._apps = _Places(s.held_per_app)
        self._merchants = _Places(s.held_per_payment)
        self._callers = _Places(s.held_per_payment_caller)
        self._clients = _Places((s.held_per_payment_caller + 1) // 2)
        self._wallets = _Places(s.held_per_payment_total)

    @property
    def counted(self) -> bool:
        """True while any answer is held that counts."""
        return any(
            (
                self._credentials.counts,
                self._addresses.counts,
                self._apps.counts,
                self._merchants.counts,
                self._callers.counts,
                self._clients.counts,
                self._wallets.counts,
            )
        )

    def by_merchant(self, credential: str, merchant_id: str, payment_id: str | None) -> Release:
        """An answer to a merchant; `payment_id` is None if the request names no payment."""
        # another merchant may ask for it too, and is told that there is no such payment
        own = [] if payment_id is None else [(self._merchants, f"{payment_id} {merchant_id}")]
        return _all([(self._credentials, credential), *own])

    def by_key(self, credential: str, payment_id: str | None) -> Release:
        """An answer to a key on a wallet's path."""
        places = [(self._credentials, credential)]
        return _all([*places, *self._wallet(payment_id, credential, credential)])

    def by_app(self, app_id: str, credential: str, network: str, payment_id: str | None) -> Release:
        """An answer to an App-Id; `credential` names its client too."""
        places = [
            (self._addresses, network),
            *self._wallet(payment_id, network, f"{network} {credential}"),
        ]
        return _all([*places, (self._apps, app_id)])

    def by_nobody(self, network: str) -> Release:
        """An answer that needs no credential."""
        return _all([(self._addresses, network), (self._apps, "")])

    def by_page(self, network: str, payment_id: str) -> Release:
        """An answer to a buyer's page: what pages hold is not taken from wallets, nor from apps."""
        places = [(self._addresses, network), (self._apps, "/")]
        return _all([*places, *self._wallet(f"/{payment_id}", network, network)])

    def _wallet(
        self, payment_id: str | None, origin: str, credential: str
    ) -> list[tuple[_Places, str]]:
        if payment_id is None:
            return []
        return [
            # of two wallets at one address neither takes it all, unless it changes its name
            (self._clients, f"{payment_id} {credential}"),
            (self._callers, f"{payment_id} {origin}"),
            (self._wallets, payment_id),
        ]


class _Places:
    """How many answers are held now, by key; a limit of 0 counts nothing."""

    __slots__ = ("_most", "counts")

    def __init__(self, most: int) -> None:
        self._most = most
        self.counts: Counter[str] = Counter()

    def take(self, key: str) -> bool:
        """Takes a place; False if there is none."""
        if self._most and self.counts[key] >= self._most:
            return False
        if self._most:
            self.counts[key] += 1
        return True

    def give_back(self, key: str) -> None:
        """Undoes one `take`."""
        if self._most:
            self.counts[key] -= 1
            if not self.counts[key]:
                del self.counts[key]


def _all(places: Sequence[tuple[_Places, str]]) -> Release:
    """Takes all places or none."""
    taken: list[tuple[_Places, str]] = []

    def release() -> None:
        for place, key in taken:
            place.give_back(key)

    for place, key in places:
        if not place.take(key):
            release()
            # nobody knows when one ends
            raise FlorinError(Code.RATE_LIMITED, "Too many held answers", retry_after_s=1)
        taken.append((place, key))
    return release
