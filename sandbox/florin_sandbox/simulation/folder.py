"""Find the days that a state folder can simulate, and keep its clock consistent."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime

from florin_server.app.home import SetupError, StateFolder
from florin_server.app.stores import get_location
from florin_server.db import installation
from florin_server.db.engine.store import Store
from florin_server.money.open_store import open_store
from florin_server.settings import Settings

from florin_sandbox.simulation.population import DAY_US, HOUR_US, SECOND_US

# time for the last orders to end
MARGIN_US = 2 * HOUR_US
# time after which the last service has surely ended
_PAUSE_US = 60 * SECOND_US


@dataclass(frozen=True, slots=True)
class SimulatedPeriod:
    """The start of a simulation, and the offset of the folder's clock, in microseconds.

    Simulated days end about now if the folder was not used since they began. Otherwise they follow
    its last use, and the folder's clock is advanced, as tests do it.
    """

    begin_us: int
    ahead_us: int


def get_usable_home(settings: Settings) -> StateFolder:
    """Return the state folder; SetupError if it cannot be used for a simulation now."""
    home = StateFolder(settings.home)
    if settings.chains or settings.solana_chains:
        raise SetupError(
            "the settings name real chains, whose clock cannot move: use another state folder "
            "(--home)"
        )
    if not (settings.has_embedded and settings.has_embedded_solana):
        raise SetupError("a simulation needs both embedded chains: enable both in the settings")
    if get_location(settings) != home.database_path:
        raise SetupError("a simulation needs SQLite in its own state folder: unset FLORIN_STORE")
    if home.find_addresses() is not None:
        raise SetupError(
            f"Florin runs with its state in {home.path}: stop it, or use another state folder "
            "(--home)"
        )
    return home


async def plan_period(
    home: StateFolder, days: int, first_day: date | None = None
) -> SimulatedPeriod:
    """Find a period for the simulated days, and store the clock offset of the folder.

    Store the offset first: even if the simulation fails, no later start is before it. SetupError if
    `first_day` is given, but the folder was used before or the days are not over yet.
    """
    length_us = days * DAY_US + MARGIN_US
    now_us = time.time_ns() // 1000
    if first_day is not None:
        begin_us = (
            int(datetime.combine(first_day, datetime.min.time(), UTC).timestamp()) * SECOND_US
        )
        if home.database_path.exists():
            raise SetupError(
                f"{home.path} was used before: leave out --begin, or use another state folder "
                "(--home)"
            )
        if not 0 <= begin_us <= now_us - length_us:
            raise SetupError(
                f"{days} days from {first_day} on are not over yet: use an earlier --begin"
            )
        return SimulatedPeriod(begin_us, 0)
    if not home.database_path.exists():
        return SimulatedPeriod(_round_to_hour(now_us - length_us), 0)
    store = await open_store(home.database_path)
    try:
        ahead_us = await store.read(installation.get_clock_offset())
        used_us = await store.read(installation.get_last_followed()) * SECOND_US
        # without a recorded use, assume that the folder was used until now
        used_us = used_us or now_us + ahead_us
        begin_us = max(_round_to_hour(now_us + ahead_us - length_us), used_us + _PAUSE_US)
        more_us = max(0, begin_us + length_us - now_us - ahead_us)
        if more_us:
            ahead_us = await store.write(installation.advance_clock(more_us))
    finally:
        await store.close()
    return SimulatedPeriod(begin_us, ahead_us)


async def advance_store_clock(store: Store, days: SimulatedPeriod, now_us: int) -> None:
    """Advance the folder's clock if it is before the end of the simulated time."""
    behind_us = now_us - time.time_ns() // 1000 - days.ahead_us
    if behind_us > 0:
        await store.write(installation.advance_clock(behind_us))


def _round_to_hour(at_us: int) -> int:
    return at_us // HOUR_US * HOUR_US
