"""The head of a chain as whoever pays out follows it."""

from __future__ import annotations

from florin_server.rails.roles import Blocks, Observer
from florin_server.rails.types import Fact, Head
from florin_server.workers.settlement.blocks import HeadFollower


class PolledHead(HeadFollower):
    """The head of a chain that is looked at while something is on its way.

    `rewinds` counts how often the head moved: blocks are not read, so any may be replaced by then.
    """

    def __init__(self, observer: Observer, blocks: Blocks | None, confirmations: int) -> None:
        super().__init__(observer)
        self._blocks = blocks
        self._confirmations = confirmations
        self._newest: Head | None = None

    def is_final(self, number: int) -> bool:
        """True if a block is as deep as the chain's settings ask."""
        if self._newest and self._newest.final is not None and number > self._newest.final:
            return False
        return self.head - number + 1 >= self._confirmations

    async def is_settled(self, fact: Fact) -> bool:
        """True if a fact is final, part of the chain now, and enough nodes tell it."""
        if not self.is_final(fact.block_number):
            return False
        if self._blocks and await self.hash_of(fact.block_number) != fact.block_hash:
            return False
        return await self._agreement.covers(fact)

    async def hash_of(self, number: int) -> str | None:
        """The hash of the block with a number now; None if the chain has none (yet)."""
        view = await self._blocks.block(number) if self._blocks else None
        return view.hash if view else None

    def _moved(self, head: Head) -> bool:
        """Back as well: what was final may be replaced."""
        moved = head != self._newest
        self._newest, self.head = head, head.number
        self.rewinds += moved
        return moved
