"""The head of a chain, as the payout worker follows it."""

from __future__ import annotations

from florin_server.money.settlement.worker.blocks import HeadFollower
from florin_server.rails.roles import BlockReader, ChainObserver
from florin_server.rails.types import ChainFact, ChainHead


class PolledHead(HeadFollower):
    """The head of a chain that is read while a transaction is in progress.

    `rewinds` counts how often the head moved: blocks are not read, so each may have been replaced.
    """

    def __init__(
        self, observer: ChainObserver, blocks: BlockReader | None, confirmations: int
    ) -> None:
        super().__init__(observer)
        self._blocks = blocks
        self._confirmations = confirmations
        self._newest: ChainHead | None = None

    def is_final(self, number: int) -> bool:
        """Return True if a block is as deep as the chain's settings ask."""
        if self._newest and self._newest.final is not None and number > self._newest.final:
            return False
        return self.head - number + 1 >= self._confirmations

    async def is_settled(self, fact: ChainFact) -> bool:
        """Return True if a fact is final, part of the chain now, and enough nodes confirm it."""
        if not self.is_final(fact.block_number):
            return False
        if self._blocks and await self.find_block_hash(fact.block_number) != fact.block_hash:
            return False
        return await self._agreement.is_agreed(fact)

    async def find_block_hash(self, number: int) -> str | None:
        """Return the hash of the block with a number now; None if the chain has none (yet)."""
        view = await self._blocks.find_block(number) if self._blocks else None
        return view.hash if view else None

    def _accept_head(self, head: ChainHead) -> bool:
        """Note a move of the head, also back: a final block may have been replaced."""
        moved = head != self._newest
        self._newest, self.head = head, head.number
        self.rewind_count += moved
        return moved
