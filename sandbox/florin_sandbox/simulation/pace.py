"""Pace the blocks of an embedded chain by the simulated clock."""

from __future__ import annotations

from florin_sandbox.simulation.nodes import SandboxNode

# block time of a slow chain, in promised block times
SLOW_FACTOR = 20
# the shortest step of the clock, even for a chain that seals blocks at once
_INTERVAL_MIN_US = 400_000
# the fault that keeps transactions out of blocks, by kind of chain
_STOP_FAULTS = {"evm": "mining", "solana": "landing"}


class BlockPacer:
    """Produces the blocks of one chain: on time, late, or none during an outage.

    A slow chain is a stopped chain that gets one block whenever one is due.
    """

    def __init__(self, kind: str, node: SandboxNode, block_s: float, *, slow: bool) -> None:
        self.kind = kind
        self.is_stopped = False
        self._node = node
        self._is_slow = slow
        self._interval_us = max(_INTERVAL_MIN_US, int(block_s * 1_000_000)) * (
            SLOW_FACTOR if slow else 1
        )
        self.due_us = 0

    async def start(self, now_us: int) -> None:
        """Start pacing at the begin of the simulation."""
        self.due_us = now_us + self._interval_us
        if self._is_slow:
            await self._set_paused(paused=True)

    async def advance(self, now_us: int) -> bool:
        """Process the new time; return True if it forced a block of a slow chain."""
        if now_us < self.due_us:
            return False
        self.due_us = now_us + self._interval_us
        if not self._is_slow or self.is_stopped:
            return False
        if self.kind == "evm":
            await self._node.call("evm_mine")
        else:
            await self._set_paused(paused=False)
            await self._set_paused(paused=True)
        return True

    async def stop(self) -> None:
        """Stop the chain: it produces no more blocks."""
        self.is_stopped = True
        await self._set_paused(paused=True)

    async def resume(self, now_us: int) -> None:
        """Let the chain produce blocks again."""
        self.is_stopped = False
        self.due_us = now_us + self._interval_us
        if not self._is_slow:
            await self._set_paused(paused=False)

    async def finish(self) -> None:
        """Stop pacing at the end of the simulation; the chain runs normally again."""
        await self._set_paused(paused=False)

    async def _set_paused(self, *, paused: bool) -> None:
        await self._node.arm_fault(_STOP_FAULTS[self.kind], paused=paused)
