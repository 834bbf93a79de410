"""In-memory chain of blocks, for tests of code that follows a chain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from florin_server.money.settlement.worker.blocks import BlockFollower, create_follower
from florin_server.rails.types import (
    BlockView,
    ChainFact,
    ChainHead,
    HeadUpdate,
    MinedTransaction,
    SettlementEvent,
)

_hashes = itertools.count(1)


def make_paid(ref: str = "a", number: int = 5, **changes: Any) -> SettlementEvent:
    event = SettlementEvent(ref, "0xpay", number, f"0x{number}", "p", "d", "f", "t", 1, 0, "n")
    return replace(event, **changes)


def make_mined(tx_hash: str = "0xours", number: int = 5, **changes: Any) -> MinedTransaction:
    return replace(MinedTransaction(tx_hash, number, f"0x{number}", True, 1), **changes)


@dataclass
class InMemoryChain:
    """Blocks in memory, and the facts that other nodes confirm."""

    confirmations: int = 3
    agreement: int = 1
    by_block: bool = True
    views: list[BlockView] = field(default_factory=list)
    attested_facts: set[ChainFact] = field(default_factory=set)
    fact_queries: list[frozenset[ChainFact]] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    # what a node that lags behind has
    visible_head: int | None = None
    # whether a request is spent on the node's finalized block
    is_attest_forbidden: bool = False
    # whether blocks are final for every amount
    deep: bool = True

    @property
    def reorg_depth(self) -> int:
        return self.confirmations

    @property
    def observer(self) -> Any:
        return self

    @property
    def blocks(self) -> Any:
        """Raise: a chain that is followed by its head has no block list."""
        return self if self.by_block else None

    def grow(self, count: int = 1, seconds: int = 10, *facts: ChainFact) -> None:
        """Add blocks; the facts are in the first of them."""
        for _ in range(count):
            number = len(self.views)
            parent = self.views[-1] if self.views else None
            hash_ = f"0xb{next(_hashes)}"
            result = [replace(fact, block_number=number, block_hash=hash_) for fact in facts]
            self.views.append(
                BlockView(
                    number,
                    hash_,
                    parent.hash if parent else "0x",
                    parent.time + seconds if parent else 1000,
                    tuple(item for item in result if isinstance(item, SettlementEvent)),
                    tuple(item for item in result if isinstance(item, MinedTransaction)),
                )
            )
            facts = ()

    def cut(self, number: int) -> None:
        """Remove a block and all that follow."""
        del self.views[number:]

    async def get_head(self) -> ChainHead:
        newest = self.views[-1]
        return ChainHead(newest.number, newest.hash, newest.time)

    async def poll_head(self, since: int) -> HeadUpdate:
        newest = self.views[-1]
        quiet = not any(block.events for block in self.views[since + 1 :])
        return HeadUpdate(
            await self.get_head(), newest.parent_hash, None if self.is_attest_forbidden else quiet
        )

    async def find_block(self, number: int) -> BlockView | None:
        self.read.append(number)
        most = len(self.views) if self.visible_head is None else self.visible_head + 1
        return self.views[number] if number < most else None

    def is_deep(self, event: SettlementEvent, head: int) -> bool:
        return self.deep

    async def confirm_facts(self, facts: Iterable[ChainFact]) -> dict[ChainFact, bool]:
        self.fact_queries.append(frozenset(facts))
        return {item: item in self.attested_facts for item in self.fact_queries[-1]}


async def follower(chain: Any) -> BlockFollower:
    created_follower = create_follower(chain)
    assert isinstance(created_follower, BlockFollower)
    assert created_follower.head == 0
    await created_follower.start()
    return created_follower
