"""A chain on which no key of ours can pay for a transaction is not offered."""

from __future__ import annotations

import asyncio
from typing import Final

from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable

# the settler of this process looks more often; where another one settles, options do
_LOOK_US: Final = 30_000_000
# somebody is sending coin
_LOOK_EMPTY_US: Final = 1_000_000


async def find_problem(app: Core, rail: Rail) -> str:
    """Return why no payment can be settled for want of coin; empty if one can.

    Nodes are asked every 30 seconds at most, or every second while there is no coin, whoever asks.
    Callers meanwhile get what was found last, or wait for the answer while there was no coin. A
    node that does not answer changes nothing.
    """
    state, now_us = app.chains[rail.chain_id], app.clock.steady_us()
    looked_us = state.funds_read_at_us
    pause_us = _LOOK_EMPTY_US if state.unfunded else _LOOK_US
    if looked_us is None or now_us - looked_us >= pause_us:
        # whoever comes while this one asks does not
        state.funds_read_at_us = now_us
        state.funds_look = asyncio.ensure_future(_look(app, rail, now_us))
        await state.funds_look
    elif state.unfunded and state.funds_look is not None:
        await asyncio.shield(state.funds_look)
    return state.unfunded


async def _look(app: Core, rail: Rail, now_us: int) -> None:
    try:
        async with asyncio.timeout(app.settings.discovery_s):
            found = await rail.relay.shortages()
    except (RailUnavailable, TimeoutError):
        return
    app.chains[rail.chain_id].note_funds(found, len(rail.senders), now_us)
