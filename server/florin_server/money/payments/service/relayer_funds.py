"""Funds of relayers: a chain on which no key can pay for a transaction is not offered."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from florin_server.db.context import StorageContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# the settler of this process checks more often; where another process settles, options do
_REFRESH_US: Final = 30_000_000
# coin may be on its way
_REFRESH_EMPTY_US: Final = 1_000_000


async def describe_problem(app: _Context, rail: Rail) -> str:
    """Return why no payment can be settled for lack of coin; empty if one can.

    Nodes are called every 30 seconds at most, or every second while coin is missing, for any number
    of callers. Callers meanwhile get the latest result, or wait for the answer while coin is
    missing. A node that does not answer changes nothing.
    """
    state, now_us = app.chains[rail.chain_id], app.clock.steady_us()
    looked_us = state.funds_read_at_us
    pause_us = _REFRESH_EMPTY_US if state.funding_problem else _REFRESH_US
    if looked_us is None or now_us - looked_us >= pause_us:
        # later callers do not repeat the call of this one
        state.funds_read_at_us = now_us
        state.funds_refresh = asyncio.ensure_future(_refresh_funds(app, rail, now_us))
        await state.funds_refresh
    elif state.funding_problem and state.funds_refresh is not None:
        await asyncio.shield(state.funds_refresh)
    return state.funding_problem


async def _refresh_funds(app: _Context, rail: Rail, now_us: int) -> None:
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            shortages = await rail.relay.list_shortages()
    except (RailUnavailable, TimeoutError):
        return
    app.chains[rail.chain_id].record_funds(shortages, len(rail.senders), now_us)
