"""How many answers are held at a time, and for whom.

Merchants are counted apart from wallets: whoever knows a payment may watch it, and must not keep
its merchant, or its buyer, from doing so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from florin_server.config import LimitSettings
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.limits.places import Places
from florin_server.meters import Meters

Release = Callable[[], None]


class Holder(StrEnum):
    """Whose answer is held."""

    MERCHANT = "merchant"
    KEY = "key"
    APP = "app"
    NOBODY = "nobody"
    PAGE = "page"


class Held:
    """All answers that one process holds; every call returns what gives its place back.

    FlorinError(rate_limited) if there is none. `open` tells how many are held, by whose they are;
    `places` are all limits that they count in.
    """

    def __init__(self, settings: LimitSettings, meters: Meters | None = None) -> None:
        meters = meters or Meters()
        self.places: list[Places] = []

        def places(name: str, most: int | None = None, *, of: str = "") -> Places:
            """Those of a name of the settings; what they refuse is counted under that.

            Where two have one setting, `of` tells them apart.
            """
            most = getattr(settings, name) if most is None else most
            made = Places(of or name, most, meters.refusal(name))
            self.places.append(made)
            return made

        self._credentials = places("held_per_credential")
        self._addresses = places("held_per_address")
        self._apps = places("held_per_app")
        self._merchants = places("held_per_payment")
        self._callers = places("held_per_payment_caller")
        half = (settings.held_per_payment_caller + 1) // 2
        self._clients = places("held_per_payment_caller", half, of="held_per_payment_client")
        self._wallets = places("held_per_payment_total")
        self.open = dict.fromkeys(Holder, 0)

    @property
    def counted(self) -> bool:
        """True while any answer is held that counts."""
        return any(places.counts for places in self.places)

    def by_merchant(self, credential: str, merchant_id: str, payment_id: str | None) -> Release:
        """An answer to a merchant; `payment_id` is None if the request names no payment."""
        # another merchant may ask for it too, and is told that there is no such payment
        own = [] if payment_id is None else [(self._merchants, f"{payment_id} {merchant_id}")]
        return self._hold(Holder.MERCHANT, [(self._credentials, credential), *own])

    def by_key(self, credential: str, payment_id: str | None) -> Release:
        """An answer to a key on a wallet's path."""
        places = [(self._credentials, credential)]
        wallet = self._wallet(payment_id, credential, credential)
        return self._hold(Holder.KEY, [*places, *wallet])

    def by_app(self, app_id: str, credential: str, network: str, payment_id: str | None) -> Release:
        """An answer to an App-Id; `credential` names its client too."""
        places = [
            (self._addresses, network),
            *self._wallet(payment_id, network, f"{network} {credential}"),
        ]
        return self._hold(Holder.APP, [*places, (self._apps, app_id)])

    def by_nobody(self, network: str) -> Release:
        """An answer that needs no credential."""
        return self._hold(Holder.NOBODY, [(self._addresses, network), (self._apps, "")])

    def by_page(self, network: str, payment_id: str) -> Release:
        """An answer to a buyer's page: what pages hold is not taken from wallets, nor from apps."""
        places = [(self._addresses, network), (self._apps, "/")]
        wallet = self._wallet(f"/{payment_id}", network, network)
        return self._hold(Holder.PAGE, [*places, *wallet])

    def _hold(self, holder: Holder, places: Sequence[tuple[Places, str]]) -> Release:
        release = _all(places)
        self.open[holder] += 1

        def end() -> None:
            release()
            self.open[holder] -= 1

        return end

    def _wallet(
        self, payment_id: str | None, origin: str, credential: str
    ) -> list[tuple[Places, str]]:
        if payment_id is None:
            return []
        return [
            # of two wallets at one address neither takes it all, unless it changes its name
            (self._clients, f"{payment_id} {credential}"),
            (self._callers, f"{payment_id} {origin}"),
            (self._wallets, payment_id),
        ]


def _all(places: Sequence[tuple[Places, str]]) -> Release:
    """Takes all places or none."""
    taken: list[tuple[Places, str]] = []

    def release() -> None:
        for place, key in taken:
            place.give_back(key)

    for place, key in places:
        if not place.take(key):
            release()
            place.refused()
            # nobody knows when one ends
            raise FlorinError(Code.RATE_LIMITED, "Too many held answers", retry_after_s=1)
        taken.append((place, key))
    return release
