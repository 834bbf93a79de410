"""Keeps a process on the time of the database that it shares with others.

Leases, expiry, retries and the schedule of webhooks compare times that several processes wrote. So
all of them go by the clock of the database, whatever the clocks of their machines say.
"""

from __future__ import annotations

import logging

from florin_server.clock import Clock, SystemClock
from florin_server.domain.errors import FlorinError
from florin_server.flows.app import Core
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.store import Store

_log = logging.getLogger(__name__)

_LOOK_S = 30.0
# an answer says the time of a moment within its round trip: the shortest of some says it best
_TRIES = 3
# within this the clock is as good as the network is; a smaller step would be noise
_STEP_US = 20_000


async def follow_store_time(core: Core) -> None:
    """Work until cancelled: compare the clock with the database's every half minute."""
    while True:
        await core.clock.sleep(_LOOK_S)
        try:
            await set_to_store_time(core.store, core.clock)
        except (StoreError, FlorinError) as error:
            # steady clocks drift by milliseconds in the hours in which a database may be away
            _log.debug("the database did not say its time: %s", error)


async def set_to_store_time(store: Store, clock: Clock) -> None:
    """Set a system clock to the database's time; StoreError if that cannot be asked.

    Nothing happens where no other machine has the store, and to clocks that tests move.
    """
    if not isinstance(clock, SystemClock):
        return
    answers = []
    for _ in range(_TRIES):
        before_us = clock.elapsed_us()
        told_us = await store.time_us()
        if told_us is None:
            return
        trip_us = clock.elapsed_us() - before_us
        answers.append((trip_us, told_us, before_us + trip_us // 2))
    trip_us, told_us, at_us = min(answers)
    clock.follow(told_us, at_us, tolerance_us=max(trip_us, _STEP_US))
