"""Keeps a process on the time of the database that it shares with others.

Leases, expiry, retries and the schedule of webhooks compare times that several processes wrote. So
all of them use the clock of the database, for any clocks of their machines.
"""

from __future__ import annotations

import logging

from florin_server.base.clock import Clock, SystemClock
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.store import Store
from florin_server.domain.errors import ApiError

_log = logging.getLogger(__name__)

_INTERVAL_S = 30.0
# an answer states a time within its round trip: the shortest round trip is the most exact
_ATTEMPTS = 3
# within this difference the clock is as exact as the network; a smaller step would be noise
_STEP_US = 20_000


async def follow_store_time(core: StorageContext) -> None:
    """Work until canceled: compare the clock with the database's every half minute."""
    while True:
        await core.clock.sleep(_INTERVAL_S)
        try:
            await set_to_store_time(core.store, core.clock)
        except (StoreError, ApiError) as error:
            # steady clocks drift by milliseconds in the hours of a database outage
            _log.debug("the database did not return its time: %s", error)


async def set_to_store_time(store: Store, clock: Clock) -> None:
    """Set a system clock to the database's time; StoreError if that cannot be asked.

    Nothing happens where no other machine has the store, and to clocks that tests move.
    """
    if not isinstance(clock, SystemClock):
        return
    answers = []
    for _ in range(_ATTEMPTS):
        before_us = clock.real_steady_us()
        database_us = await store.time_us()
        if database_us is None:
            return
        trip_us = clock.real_steady_us() - before_us
        answers.append((trip_us, database_us, before_us + trip_us // 2))
    trip_us, database_us, at_us = min(answers)
    clock.follow(database_us, at_us, tolerance_us=max(trip_us, _STEP_US))
