"""Chooses the addresses of links that are looked at again after their time, once a day.

A payment's address is watched while the payment waits, and for an hour longer. What the watching
missed, because no process settled or a node's index lagged, is found by a look a day for half a
year. The looks themselves are those of `RequestedPayments`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.money.payments.store.watched_addresses import WatchedAddress
from florin_server.money.settlement.store import address_sweeps
from florin_server.money.settlement.store.address_sweeps import WATCHED_S
from florin_server.rails.protocol import Rail


class _Context(EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_PAUSE_US: Final = 10_000_000
_DAY_US: Final = 86_400_000_000
# looks under way; one that a node does not complete leaves its place to others after a while
_LOOKS_MAX: Final = 100
_PLACE_US: Final = 600_000_000
# a look that was not completed: longer each time
_RETRY_US: Final = 600_000_000
_RETRY_DOUBLINGS_MAX: Final = 8
# Two days of blocks of 0.2 s. An index can lag, and what was found can be lost before it is booked.
_REREAD_BLOCKS: Final = 864_000


@dataclass(slots=True)
class _OpenLook:
    watched: WatchedAddress
    began_at_us: int


@dataclass(frozen=True, slots=True)
class DueLook:
    """An address to look at once, and the block before which nothing is read again."""

    watched: WatchedAddress
    from_block: int


class LateTransfers:
    """The looks at the addresses of one chain that are no longer watched."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._open: dict[str, _OpenLook] = {}  # by payment
        self._next_at_us = 0
        self._enrolled_s: int | None = None

    @property
    def payment_ids(self) -> Collection[str]:
        """Return the payments whose look is under way."""
        return self._open.keys()

    async def claim(self, watched_ids: Collection[str]) -> list[DueLook]:
        """Return the looks that are due, without those at addresses that are watched anyway.

        The next look is due before this one is complete, so that a restart or a silent node
        delays an address and loses none.
        """
        steady_us = self._app.clock.steady_us()
        if self._rail.transfer_requests is None or steady_us < self._next_at_us:
            return []
        self._next_at_us = steady_us + _PAUSE_US
        chain_id, store, now_us = self._rail.chain_id, self._app.store, self._app.clock.now_us()
        now_s = now_us // 1_000_000
        since_s = now_s - WATCHED_S if self._enrolled_s is None else self._enrolled_s
        await store.write(address_sweeps.enroll(chain_id, since_s, now_s, now_us))
        self._enrolled_s = now_s
        self._drop_stuck(steady_us)
        room = _LOOKS_MAX - len(self._open)
        if room <= 0:
            return []
        looks = await store.read(address_sweeps.list_due(chain_id, now_us, room))
        for tries in {look.tries for look in looks}:
            addresses = [look.address for look in looks if look.tries == tries]
            pause_us = min(_RETRY_US << min(tries, _RETRY_DOUBLINGS_MAX), _DAY_US)
            await store.write(
                address_sweeps.postpone(chain_id, addresses, now_us + pause_us, None, tries + 1)
            )
        due: list[DueLook] = []
        for look in looks:
            payment = look.payment
            if payment.id in watched_ids or payment.id in self._open:
                continue
            watched = WatchedAddress(payment.id, look.address, 0, now_s, payment.status)
            due.append(DueLook(watched, max(0, (look.read_to or 0) - _REREAD_BLOCKS)))
        return due

    def begin(self, look: DueLook) -> None:
        """Let a look keep its place until it is complete."""
        self._open[look.watched.payment_id] = _OpenLook(look.watched, self._app.clock.steady_us())

    async def complete(self, payment_id: str, read_to: int | None) -> None:
        """Look at a payment's address again after a day; it was read up to a block."""
        look = self._open.pop(payment_id, None)
        if look is not None:
            due_us = self._app.clock.now_us() + _DAY_US
            await self._app.store.write(
                address_sweeps.postpone(
                    self._rail.chain_id, [look.watched.address], due_us, read_to
                )
            )

    def _drop_stuck(self, steady_us: int) -> None:
        """Give up looks that take long if others may wait; they are due again later."""
        if len(self._open) == _LOOKS_MAX:
            self._open = {
                payment_id: look
                for payment_id, look in self._open.items()
                if steady_us - look.began_at_us < _PLACE_US
            }
