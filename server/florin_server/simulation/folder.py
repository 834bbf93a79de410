"""Which days a state folder has room for, and what time it is in it afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime

from florin_server.boot.home import Home, Refused
from florin_server.boot.stores import where
from florin_server.config import Settings
from florin_server.simulation.population import DAY_US, HOUR_US, SECOND_US
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.store import Store
from florin_server.store.operator import installation

# for what is ordered last, and is over some time later
SLACK_US = 2 * HOUR_US
# what ran last was over by then
_PAUSE_US = 60 * SECOND_US


@dataclass(frozen=True, slots=True)
class Days:
    """When a simulation begins, and by how much the folder's time is ahead from now on.

    Microseconds. Simulated days end about now if the folder was not used since they began;
    otherwise they come after its last use, and its time is moved on, as tests may do it.
    """

    begin_us: int
    ahead_us: int


def usable(settings: Settings) -> Home:
    """The state folder; Refused if nothing can be simulated there now."""
    home = Home(settings.home)
    if settings.chains or settings.solana_chains:
        raise Refused(
            "the settings name chains whose time nobody can move: simulate in another home (--home)"
        )
    if not (settings.has_embedded and settings.has_embedded_solana):
        raise Refused("a simulation needs both embedded chains, and the settings leave one out")
    if where(settings) != home.database:
        raise Refused("days are simulated on SQLite, in a folder of their own: unset FLORIN_STORE")
    if home.addresses() is not None:
        raise Refused(f"Florin runs with its state in {home.path}: end it, or use another home")
    return home


async def days_of(home: Home, days: int, first: date | None = None) -> Days:
    """Finds room for some days, and writes down how far ahead the folder's time is for them.

    It is written first: whatever becomes of the simulation, no later start is before it. Refused
    if the `first` day is named, and the folder was used before or the days are not over yet.
    """
    length_us = days * DAY_US + SLACK_US
    now_us = time.time_ns() // 1000
    if first is not None:
        begin_us = int(datetime.combine(first, datetime.min.time(), UTC).timestamp()) * SECOND_US
        if home.database.exists():
            raise Refused(f"{home.path} was used before: name no first day, or another home")
        if not 0 <= begin_us <= now_us - length_us:
            raise Refused(f"{days} days from {first} on are not over yet: begin earlier")
        return Days(begin_us, 0)
    if not home.database.exists():
        return Days(_full_hour(now_us - length_us), 0)
    store = await open_store(home.database)
    try:
        ahead_us = await store.read(installation.clock_ahead())
        used_us = await store.read(installation.last_followed()) * SECOND_US
        # a folder that no service has worked in for long has no other trace of when it was used
        used_us = used_us or now_us + ahead_us
        begin_us = max(_full_hour(now_us + ahead_us - length_us), used_us + _PAUSE_US)
        more_us = max(0, begin_us + length_us - now_us - ahead_us)
        if more_us:
            ahead_us = await store.write(installation.move_clock(more_us))
    finally:
        await store.close()
    return Days(begin_us, ahead_us)


async def keep_up(store: Store, days: Days, now_us: int) -> None:
    """Sees to it that the folder's time is not before what was simulated."""
    behind_us = now_us - time.time_ns() // 1000 - days.ahead_us
    if behind_us > 0:
        await store.write(installation.move_clock(behind_us))


def _full_hour(at_us: int) -> int:
    return at_us // HOUR_US * HOUR_US
