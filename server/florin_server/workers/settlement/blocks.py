"""Follows one chain block by block and remembers what its newest blocks prove.

What a block says counts only while the block is part of the chain: when a parent does not match,
everything from the replaced blocks is forgotten and read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from itertools import pairwise

from florin_server.rails.protocol import Rail
from florin_server.rails.roles import Blocks, Observer
from florin_server.rails.types import BlockView, Fact, Head, Mined, Paid

# blocks of one look; the rest comes with the next, so that work gets its turn in between
_BLOCKS_A_LOOK = 64
# slots for which it is remembered what was agreed on; asking again is only a read
_REMEMBERED = 1000
# the pace of a chain is that of so many blocks; a test chain that rests is not waited for
_TIMES, _INTERVAL_MAX_S = 16, 60


@dataclass(slots=True)
class Evidence:
    """What the chain proves now: settlement events by reference, our transactions by hash.

    `fresh` are all events of blocks that were read since somebody took those out that matter here.
    Contracts are shared and anybody may call them, so that most events are nobody's.
    """

    paid: dict[str, list[Paid]] = field(default_factory=dict)
    mined: dict[str, Mined] = field(default_factory=dict)
    fresh: list[Paid] = field(default_factory=list)

    def add_paid(self, event: Paid) -> None:
        """Remembers an event once."""
        known = self.paid.setdefault(event.ref, [])
        if event not in known:
            known.append(event)

    def spend(self, ref: str, is_proof: Callable[[Paid], bool]) -> None:
        """Drops the events of a reference that ended their payment; others may be late money."""
        kept = [event for event in self.paid.pop(ref, ()) if not is_proof(event)]
        if kept:
            self.paid[ref] = kept

    def forget_from(self, number: int) -> None:
        """Drops everything from a block on."""
        for ref in list(self.paid):
            kept = [event for event in self.paid[ref] if event.block_number < number]
            if kept:
                self.paid[ref] = kept
            else:
                del self.paid[ref]
        self.mined = {h: m for h, m in self.mined.items() if m.block_number < number}
        self.fresh = [event for event in self.fresh if event.block_number < number]

    def forget_below(self, number: int, pinned: Container[str]) -> None:
        """Drops what is older than a block, but for events of some references.

        It can be asked for again.
        """
        for ref in [one for one in self.paid if one not in pinned]:
            kept = [event for event in self.paid[ref] if event.block_number >= number]
            if kept:
                self.paid[ref] = kept
            else:
                del self.paid[ref]
        self.mined = {h: m for h, m in self.mined.items() if m.block_number >= number}

    def forget(self, fact: Fact) -> None:
        """Drops what is not so."""
        if isinstance(fact, Mined):
            if self.mined.get(fact.tx_hash) == fact:
                del self.mined[fact.tx_hash]
            return
        # whoever goes through the events goes on with the former list
        self.paid[fact.ref] = [one for one in self.paid.get(fact.ref, ()) if one != fact]
        if not self.paid[fact.ref]:
            del self.paid[fact.ref]

    def of_block(self, number: int, block_hash: str) -> frozenset[Fact]:
        """What a block proves."""
        facts: list[Fact] = [event for events in self.paid.values() for event in events]
        facts += self.mined.values()
        return frozenset(
            one for one in facts if one.block_number == number and one.block_hash == block_hash
        )


class Agreement:
    """Which facts enough nodes told; they are asked for all of a block together, once a look."""

    def __init__(self, observer: Observer, evidence: Evidence) -> None:
        self._observer = observer
        self._evidence = evidence
        self._agreed: set[Fact] = set()
        self._asked: set[Fact] = set()

    def ask_again(self) -> None:
        """A new look: what was not agreed on may be now."""
        self._asked.clear()

    async def covers(self, fact: Fact) -> bool:
        """True if enough nodes tell the fact; one that they differ about is forgotten.

        What is true of it is asked for again, as of everything that no block told.
        """
        if self._observer.agreement == 1 or fact in self._agreed:
            return True
        facts = self._evidence.of_block(fact.block_number, fact.block_hash) | {fact}
        if new := facts - self._agreed - self._asked:
            self._asked |= new
            for one, is_true in (await self._observer.agreed(new)).items():
                if is_true:
                    self._agreed.add(one)
                else:
                    self._evidence.forget(one)
        return fact in self._agreed

    def forget_below(self, number: int) -> None:
        """Drops what is older than a block."""
        self._agreed = {one for one in self._agreed if one.block_number >= number}


class HeadFollower:
    """The newest final block of a chain whose blocks are not read; evidence is asked for."""

    rewinds = 0
    time = 0
    interval = 0

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.head = 0
        self.evidence = Evidence()
        self._agreement = Agreement(observer, self.evidence)

    async def start(self) -> None:
        """Begins at the head."""
        self.head = (await self._observer.head()).number

    def is_final(self, number: int) -> bool:
        """True if a block is final."""
        return number <= self.head

    async def is_settled(self, fact: Fact) -> bool:
        """True if a fact is final, and enough nodes tell it; what is final stays."""
        return self.is_final(fact.block_number) and await self._agreement.covers(fact)

    async def hash_of(self, number: int) -> str | None:  # noqa: ARG002
        """None: blocks are not read."""
        return None

    async def look(self) -> bool:
        """True if the head moved."""
        self._agreement.ask_again()
        self._agreement.forget_below(self.head - _REMEMBERED)
        return self._moved(await self._observer.head())

    def forget_old(self, pinned: Container[str]) -> None:
        """Drops evidence that nobody will need soon, but for events of some references."""
        self.evidence.forget_below(self.head - _REMEMBERED, pinned)

    def _moved(self, head: Head) -> bool:
        """Remembers the newest final block; a node may lag behind what was seen."""
        before, self.head = self.head, max(self.head, head.number)
        return self.head != before


class BlockFollower:
    """The newest blocks of one chain, and the evidence in them.

    `rewinds` counts how often blocks were replaced; `time` is the newest block's, in Unix seconds,
    and `interval` the seconds between the newest blocks, at most a stated number.
    """

    def __init__(self, observer: Observer, blocks: Blocks, confirmations: int) -> None:
        self._observer = observer
        self._blocks = blocks
        self._confirmations = confirmations
        self._hashes: dict[int, str] = {}
        self._times: deque[int] = deque(maxlen=_TIMES)
        self.rewinds = 0
        self.head = 0
        self.evidence = Evidence()
        self._agreement = Agreement(observer, self.evidence)

    async def start(self) -> None:
        """Begins at the head; what came before is found by asking for it."""
        head = await self._observer.head()
        self.head = head.number
        self._hashes = {head.number: head.hash}
        self._times.clear()
        self._times.append(head.time)

    @property
    def time(self) -> int:
        """Of the newest block, in Unix seconds."""
        return self._times[-1]

    @property
    def interval(self) -> int:
        """Seconds between the newest blocks."""
        gaps = sorted(later - one for one, later in pairwise(self._times))
        return min(max(gaps[len(gaps) // 2], 1), _INTERVAL_MAX_S) if gaps else 1

    def is_final(self, number: int) -> bool:
        """True if a block is as deep as the chain's settings ask."""
        return self.head - number + 1 >= self._confirmations

    async def is_settled(self, fact: Fact) -> bool:
        """True if a fact's block is final and part of the chain, and enough nodes tell it."""
        if not self.is_final(fact.block_number):
            return False
        now = await self.hash_of(fact.block_number)
        if now not in {None, fact.block_hash}:
            # told by a node of a block that this follower never read, and that was replaced
            self.evidence.forget(fact)
        return now == fact.block_hash and await self._agreement.covers(fact)

    async def hash_of(self, number: int) -> str | None:
        """The hash of the block with a number now; None if the chain has none (yet)."""
        known = self._hashes.get(number)
        if known is None:
            view = await self._blocks.block(number)
            known = view.hash if view else None
        return known

    async def look(self) -> bool:
        """Reads new blocks; True if there were any."""
        self._agreement.ask_again()
        head = await self._observer.head()
        if head.number == self.head and self._hashes.get(head.number) == head.hash:
            return False
        if head.number <= self.head:
            # a higher block tells by its parent whether those before it were replaced
            await self._rewind(head)
        while self.head < head.number:
            view = await self._blocks.block(self.head + 1)
            if view is None:
                break
            if view.parent_hash != self._hashes.get(self.head, view.parent_hash):
                await self._rewind(head)
                continue
            self._add(view)
            if head.number - self.head >= _BLOCKS_A_LOOK and self.head % _BLOCKS_A_LOOK == 0:
                break
        return True

    def _add(self, view: BlockView) -> None:
        self.head = view.number
        self._hashes[view.number] = view.hash
        self._times.append(view.time)
        self.evidence.fresh += view.paid
        for mined in view.mined:
            self.evidence.mined[mined.tx_hash] = mined
        for number in [n for n in self._hashes if n < self._oldest]:
            del self._hashes[number]
        self._agreement.forget_below(self._oldest)

    def forget_old(self, pinned: Container[str]) -> None:
        """Drops evidence that nobody will need soon, but for events of some references."""
        self.evidence.forget_below(self._oldest, pinned)

    @property
    def _oldest(self) -> int:
        """The lowest block that a reorganisation may replace, as far as that is handled.

        What is below is asked for again if it is ever needed.
        """
        return self.head - 4 * max(self._confirmations, 16)

    async def _rewind(self, head: Head) -> None:
        """Steps back to the newest remembered block that is still part of the chain."""
        number = min(self.head, head.number)
        while number in self._hashes:
            view = await self._blocks.block(number)
            if view is not None and view.hash == self._hashes[number]:
                break
            number -= 1
        for stale in [n for n in self._hashes if n > number]:
            del self._hashes[stale]
        if number < self.head:
            self.evidence.forget_from(number + 1)
            self.rewinds += 1
        self.head = number


Follower = BlockFollower | HeadFollower


def follow(rail: Rail) -> Follower:
    """Follows a chain in the way that it is followed."""
    if rail.blocks is None:
        return HeadFollower(rail.observer)
    return BlockFollower(rail.observer, rail.blocks, rail.confirmations)
