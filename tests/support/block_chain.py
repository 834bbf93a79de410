"""A chain of blocks in memory, for what follows one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from florin_server.rails.types import BlockView, Fact, Glance, Head, Mined, Paid
from florin_server.workers.settlement.blocks import BlockFollower, follow

_hashes = itertools.count(1)


def paid(ref: str = "a", number: int = 5, **changes: Any) -> Paid:
    event = Paid(ref, "0xpay", number, f"0x{number}", "p", "d", "f", "t", 1, 0, "n")
    return replace(event, **changes)


def mined(tx_hash: str = "0xours", number: int = 5, **changes: Any) -> Mined:
    return replace(Mined(tx_hash, number, f"0x{number}", True, 1), **changes)


@dataclass
class Chain:
    """Blocks in memory, and which facts other nodes tell as well."""

    confirmations: int = 3
    agreement: int = 1
    by_block: bool = True
    views: list[BlockView] = field(default_factory=list)
    true: set[Fact] = field(default_factory=set)
    asked: list[frozenset[Fact]] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    # what a node that lags behind has
    shown: int | None = None
    # whether a glance is spent on what the node calls final
    unasked: bool = False
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
        """A chain that is followed by its head has none."""
        return self if self.by_block else None

    def grow(self, count: int = 1, seconds: int = 10, *facts: Fact) -> None:
        """More blocks; the facts are in the first of them."""
        for _ in range(count):
            number = len(self.views)
            parent = self.views[-1] if self.views else None
            hash_ = f"0xb{next(_hashes)}"
            told = [replace(one, block_number=number, block_hash=hash_) for one in facts]
            self.views.append(
                BlockView(
                    number,
                    hash_,
                    parent.hash if parent else "0x",
                    parent.time + seconds if parent else 1000,
                    tuple(one for one in told if isinstance(one, Paid)),
                    tuple(one for one in told if isinstance(one, Mined)),
                )
            )
            facts = ()

    def cut(self, number: int) -> None:
        """Removes a block and all that follow."""
        del self.views[number:]

    async def head(self) -> Head:
        newest = self.views[-1]
        return Head(newest.number, newest.hash, newest.time)

    async def glance(self, since: int) -> Glance:
        newest = self.views[-1]
        quiet = not any(one.paid for one in self.views[since + 1 :])
        return Glance(await self.head(), newest.parent_hash, None if self.unasked else quiet)

    async def block(self, number: int) -> BlockView | None:
        self.read.append(number)
        most = len(self.views) if self.shown is None else self.shown + 1
        return self.views[number] if number < most else None

    def is_deep(self, paid: Paid, head: int) -> bool:
        return self.deep

    async def agreed(self, facts: Iterable[Fact]) -> dict[Fact, bool]:
        self.asked.append(frozenset(facts))
        return {one: one in self.true for one in self.asked[-1]}


async def follower(chain: Any) -> BlockFollower:
    made = follow(chain)
    assert isinstance(made, BlockFollower)
    assert made.head == 0
    await made.start()
    return made
