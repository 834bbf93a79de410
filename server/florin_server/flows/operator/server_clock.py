"""Whether the server's clock is right, compared with the newest blocks of all chains."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from florin_server.flows.app import App
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable

# No chain takes blocks from so far in the future; what is signed by a clock that is so far behind
# has lapsed for the chain while it is good here.
_BEHIND_S: Final = 60
# newest blocks are old where a chain rests, too: minutes on all chains with real money are not
_AHEAD_S: Final = 600
_ASK_S: Final = 1.0


async def describe(app: App) -> str:
    """Return what is wrong with the server's clock, in a sentence; empty if nothing is known."""
    rails = list(app.rails.values())
    times = await asyncio.gather(*(_block_time(rail) for rail in rails))
    now = app.clock.now_us() // 1_000_000
    seen = [(at - now, rail.live) for rail, at in zip(rails, times, strict=True) if at]
    return compare([by for by, _ in seen], [by for by, live in seen if live])


def compare(offsets: Sequence[int], live: Sequence[int]) -> str:
    """Return what block times say of the server's clock, in a sentence; empty if nothing.

    `offsets` are how many seconds each chain's newest block is later than the server's time,
    `live` those of chains with real money. More than half of the chains have to say so: where
    several are asked, one that lies proves nothing.
    """
    behind = sorted(offsets)[(len(offsets) - 1) // 2] if offsets else 0
    if behind >= _BEHIND_S:
        return f"the server's clock is at least {behind} s behind the newest blocks"
    ahead = -sorted(live)[len(live) // 2] if live else 0
    if ahead >= _AHEAD_S:
        return f"the server's clock is {ahead} s ahead of the newest blocks of chains in use"
    return ""


async def _block_time(rail: Rail) -> int:
    """Return the time of a chain's newest block, in Unix seconds; 0 if it does not tell."""
    try:
        async with asyncio.timeout(_ASK_S):
            return (await rail.observer.head()).time
    except (RailUnavailable, TimeoutError):
        return 0
