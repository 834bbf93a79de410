"""Checks of the server's clock against the newest blocks of all chains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from florin_server.db.context import StorageContext
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


# No chain accepts blocks from so far in the future. What is signed by a clock so far behind has
# lapsed for the chain while it is valid here.
_BEHIND_S: Final = 60
# the newest blocks of an idle chain are old, too: but not by minutes on all chains with real money
_AHEAD_S: Final = 600
_ASK_S: Final = 1.0


async def describe(app: _Context) -> str:
    """Return what is wrong with the server's clock, in a sentence; empty if nothing is known."""
    rails = list(app.rails.values())
    times = await asyncio.gather(*(_get_block_time(rail) for rail in rails))
    now = app.clock.now_us() // 1_000_000
    seen = [(at - now, rail.live) for rail, at in zip(rails, times, strict=True) if at]
    return describe_offsets([by for by, _ in seen], [by for by, live in seen if live])


def describe_offsets(offsets: Sequence[int], live: Sequence[int]) -> str:
    """Return what block times say about the server's clock, in a sentence; empty if it is right.

    `offsets` are how many seconds each chain's newest block is later than the server's time, `live`
    those of chains with real money. More than half of the chains have to agree: one lying chain
    among several proves nothing.
    """
    behind = sorted(offsets)[(len(offsets) - 1) // 2] if offsets else 0
    if behind >= _BEHIND_S:
        return f"the server's clock is at least {behind} s behind the newest blocks"
    ahead = -sorted(live)[len(live) // 2] if live else 0
    if ahead >= _AHEAD_S:
        return f"the server's clock is {ahead} s ahead of the newest blocks of chains in use"
    return ""


async def _get_block_time(rail: Rail) -> int:
    """Return the time of a chain's newest block, in Unix seconds; 0 if it is unknown."""
    try:
        async with asyncio.timeout(_ASK_S):
            return (await rail.observer.get_head()).time
    except (RailUnavailable, TimeoutError):
        return 0
