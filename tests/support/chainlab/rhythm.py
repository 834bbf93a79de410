"""Block production of a harness: immediate, or at the pace of a profile."""

from __future__ import annotations

from florin_sandbox.devnet.evm.chain import STATES_MAX
from florin_server.base.clock import TestClock
from florin_server.rails.connection.jsonrpc import JsonRpcClient

from tests.support.chainlab.profiles import EvmProfile


class BlockSealer:
    """Seals the blocks of one chain.

    `parts` are the numbers of blocks between two polls of a step.
    """

    def __init__(
        self, clock: TestClock, control: JsonRpcClient, profile: EvmProfile | None
    ) -> None:
        self._clock = clock
        self._control = control
        self._profile = profile
        self._sealed = 0
        self.parts = (1,) if profile is None else profile.parts

    async def seal(self, blocks: int) -> None:
        """Seal blocks, each after its time, with the accidents of the profile's chain."""
        for _ in range(blocks):
            if self._profile is not None:
                self._clock.advance(self._profile.block_s)
                await self._befall(self._profile)
            await self._control.call("evm_mine")

    async def replace(self, steps: int, drop: list[str], delay: int) -> None:
        """Replace the blocks of the newest steps; mine transactions again after a delay in steps.

        Those in `drop` vanish.
        """
        total = sum(self.parts)
        head = int(await self._control.call("eth_blockNumber"), 16)
        depth = min(steps * total, STATES_MAX, head)
        empty = min(delay * total, depth)
        await self._reorganize(depth, drop, empty)

    def steps_of(self, blocks: int) -> int:
        """Return the least number of steps that covers so many blocks."""
        return -(-blocks // sum(self.parts))

    async def _befall(self, profile: EvmProfile) -> None:
        accident = profile.accident
        self._sealed += 1
        if accident is None or self._sealed % accident.every:
            return
        self._clock.advance(accident.silent_s)
        if accident.replaced:
            await self._reorganize(accident.replaced, [], 0)

    async def _reorganize(self, depth: int, drop: list[str], delay: int) -> None:
        expected = {"kind": "reorg", "depth": depth, "drop": drop, "delay": delay}
        await self._control.call("florin_fault", expected)
