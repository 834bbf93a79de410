"""Limits of open long polls and streams.

Merchants are counted separately from wallets: anyone who knows a payment can watch it, and must not
keep its merchant or its buyer from watching.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from florin_server.base.meters import Meters
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.limits.service.stream_slots import StreamSlots
from florin_server.settings import LimitSettings

Release = Callable[[], None]


class StreamHolder(StrEnum):
    """The kind of caller of a long poll or stream."""

    MERCHANT = "merchant"
    KEY = "key"
    APP = "app"
    ANONYMOUS = "nobody"
    PAGE = "page"


class StreamLimits:
    """All long polls and streams that one process has open.

    Every call returns its release function. ApiError(rate_limited) if the limit is reached.
    `open` has the counts by kind of caller; `places` are all limits that count them.
    """

    def __init__(self, settings: LimitSettings, meters: Meters | None = None) -> None:
        meters = meters or Meters()
        self.slots: list[StreamSlots] = []

        def places(name: str, most: int | None = None, *, of: str = "") -> StreamSlots:
            """Return the limit of a setting; its refusals are counted under that name.

            Where two limits share a setting, `of` distinguishes them.
            """
            most = getattr(settings, name) if most is None else most
            slots = StreamSlots(of or name, most, meters.create_refusal_counter(name))
            self.slots.append(slots)
            return slots

        self._credentials = places("held_per_credential")
        self._addresses = places("held_per_address")
        self._apps = places("held_per_app")
        self._merchants = places("held_per_payment")
        self._callers = places("held_per_payment_caller")
        half = (settings.held_per_payment_caller + 1) // 2
        self._clients = places("held_per_payment_caller", half, of="held_per_payment_client")
        self._wallets = places("held_per_payment_total")
        self.open_counts = dict.fromkeys(StreamHolder, 0)

    def hold_for_merchant(
        self, credential: str, merchant_id: str, payment_id: str | None
    ) -> Release:
        """Take a slot for a merchant; `payment_id` is None if the request names no payment."""
        # another merchant can ask for it too, and learns that no such payment exists
        own = [] if payment_id is None else [(self._merchants, f"{payment_id} {merchant_id}")]
        return self._hold(StreamHolder.MERCHANT, [(self._credentials, credential), *own])

    def hold_for_key(self, credential: str, payment_id: str | None) -> Release:
        """Take a slot for a key on a wallet's path."""
        places = [(self._credentials, credential)]
        wallet = self._get_wallet_slots(payment_id, credential, credential)
        return self._hold(StreamHolder.KEY, [*places, *wallet])

    def hold_for_app(
        self, app_id: str, credential: str, network: str, payment_id: str | None
    ) -> Release:
        """Take a slot for an App-Id; `credential` names its client too."""
        places = [
            (self._addresses, network),
            *self._get_wallet_slots(payment_id, network, f"{network} {credential}"),
        ]
        return self._hold(StreamHolder.APP, [*places, (self._apps, app_id)])

    def hold_for_anonymous(self, network: str) -> Release:
        """Take a slot for a call without a credential."""
        return self._hold(StreamHolder.ANONYMOUS, [(self._addresses, network), (self._apps, "")])

    def hold_for_page(self, network: str, payment_id: str) -> Release:
        """Take a slot for a buyer's page; pages use up no slots of wallets or apps."""
        places = [(self._addresses, network), (self._apps, "/")]
        wallet = self._get_wallet_slots(f"/{payment_id}", network, network)
        return self._hold(StreamHolder.PAGE, [*places, *wallet])

    def _hold(self, holder: StreamHolder, slots: Sequence[tuple[StreamSlots, str]]) -> Release:
        release = _take_all(slots)
        self.open_counts[holder] += 1

        def end() -> None:
            release()
            self.open_counts[holder] -= 1

        return end

    def _get_wallet_slots(
        self, payment_id: str | None, origin: str, credential: str
    ) -> list[tuple[StreamSlots, str]]:
        if payment_id is None:
            return []
        return [
            # of two wallets at one address neither takes all, unless it changes its Client-Id
            (self._clients, f"{payment_id} {credential}"),
            (self._callers, f"{payment_id} {origin}"),
            (self._wallets, payment_id),
        ]


def _take_all(slots: Sequence[tuple[StreamSlots, str]]) -> Release:
    """Take all places or none."""
    taken: list[tuple[StreamSlots, str]] = []

    def release() -> None:
        for place, key in taken:
            place.release(key)

    for place, key in slots:
        if not place.take(key):
            release()
            place.on_refused()
            # it is unknown when one ends
            raise ApiError(
                ErrorCode.RATE_LIMITED,
                "Too many open long polls and streams: close some, or try again",
                retry_after_s=1,
            )
        taken.append((place, key))
    return release
