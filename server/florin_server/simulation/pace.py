"""When the blocks of an embedded chain come, as the simulated clock goes by."""

from __future__ import annotations

from florin_server.simulation.nodes import Node

# how much slower a slow chain is than it promises
SLOWER = 20
# of a chain that seals by itself: the clock goes by in such steps all the same
_LEAST_US = 400_000
# what keeps transactions from blocks, by the kind of chain
_STOPS = {"evm": "mining", "solana": "landing"}


class Pace:
    """Blocks of one chain: in time, too late, or none for a while.

    A slow chain is one that is stopped, and lets one block come each time that one is due.
    """

    def __init__(self, kind: str, node: Node, block_s: float, *, slow: bool) -> None:
        self.kind = kind
        self.stopped = False
        self._node = node
        self._slow = slow
        self._every_us = max(_LEAST_US, int(block_s * 1_000_000)) * (SLOWER if slow else 1)
        self.due_us = 0

    async def begin(self, now_us: int) -> None:
        """The simulation begins."""
        self.due_us = now_us + self._every_us
        if self._slow:
            await self._hold(paused=True)

    async def passed(self, now_us: int) -> bool:
        """The time has gone on; True if that made a block come which would not by itself."""
        if now_us < self.due_us:
            return False
        self.due_us = now_us + self._every_us
        if not self._slow or self.stopped:
            return False
        if self.kind == "evm":
            await self._node.ask("evm_mine")
        else:
            await self._hold(paused=False)
            await self._hold(paused=True)
        return True

    async def stop(self) -> None:
        """No block comes from now on."""
        self.stopped = True
        await self._hold(paused=True)

    async def resume(self, now_us: int) -> None:
        """They come again."""
        self.stopped = False
        self.due_us = now_us + self._every_us
        if not self._slow:
            await self._hold(paused=False)

    async def end(self) -> None:
        """The simulation is over; the chain goes on as it was made."""
        await self._hold(paused=False)

    async def _hold(self, *, paused: bool) -> None:
        await self._node.fault(_STOPS[self.kind], paused=paused)
