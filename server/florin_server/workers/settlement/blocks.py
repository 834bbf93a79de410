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
from florin_server.rails.types import BlockView, Fact, Glance, Head, Mined, Paid

# blocks of one look; the rest comes with the next, so that work gets its turn in between
_BLOCKS_A_LOOK = 64
# blocks above the newest final one that are remembered, however long nothing becomes final
_DEPTH_MAX = 1000
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

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.paid or self.mined or self.fresh)

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

    def __init__(
        self, observer: Observer, evidence: Evidence, is_final: Callable[[Fact], bool]
    ) -> None:
        self._observer = observer
        self._evidence = evidence
        self._is_final = is_final
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
        facts = self._evidence.of_block(fact.block_number, fact.block_hash)
        # of one block, larger amounts may be final later
        facts = frozenset(filter(self._is_final, facts)) | {fact}
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
    doubtful = range(0)

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.head = 0
        self.evidence = Evidence()
        self._agreement = Agreement(
            observer, self.evidence, lambda fact: self.is_final(fact.block_number)
        )

    @property
    def newest_final(self) -> int:
        """The head: blocks that are not final are not told."""
        return self.head

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

    async def look(self, *, idle: bool = False) -> bool:  # noqa: ARG002
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
    and `interval` the seconds between the newest blocks, at most a stated number. `doubtful` spans
    the blocks whose events may be incomplete; whoever reads them again shortens it. While the
    caller waits for nothing, blocks without events are not read one by one, and are doubtful.
    """

    def __init__(
        self, observer: Observer, blocks: Blocks, confirmations: int, reorg_depth: int = 0
    ) -> None:
        self._observer = observer
        self._blocks = blocks
        self._confirmations = confirmations
        self._reorg_depth = max(confirmations, reorg_depth)
        self._final: int | None = None  # as the rail has it; None if only the count decides
        self._hashes: dict[int, str] = {}
        self._times: deque[int] = deque(maxlen=_TIMES)
        self._begun = 0
        self.rewinds = 0
        self.head = 0
        self.doubtful = range(0)
        self.evidence = Evidence()
        self._agreement = Agreement(observer, self.evidence, self._is_deep)

    async def start(self) -> None:
        """Begins at the head; what came before is found by asking for it."""
        head = await self._observer.head()
        self._final = head.final
        self.head = head.number
        # those who ask for what came before ask for what could be replaced, too
        self._begun = max(0, head.number - self._reorg_depth)
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
        if self._final is not None and number > self._final:
            return False
        return self.head - number + 1 >= self._confirmations

    def _is_deep(self, fact: Fact) -> bool:
        """Return whether a fact's block is final, for its amount where it is a payment."""
        if not self.is_final(fact.block_number):
            return False
        return not isinstance(fact, Paid) or self._blocks.is_deep(fact, self.head)

    async def is_settled(self, fact: Fact) -> bool:
        """True if a fact's block is final and part of the chain, and enough nodes tell it."""
        if not self._is_deep(fact):
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

    async def look(self, *, idle: bool = False) -> bool:
        """Reads new blocks; True if there were any.

        `idle` tells that nothing is waited for and whoever calls reads what is doubtful again.
        """
        self._agreement.ask_again()
        glance = await self._blocks.glance(self.head) if idle and not self.evidence else None
        final_before = self.newest_final
        head = glance.head if glance else await self._observer.head()
        self._final = head.final
        if head.number == self.head and self._hashes.get(head.number) == head.hash:
            return False
        if glance is not None and head.number > self.head:
            if glance.quiet is None:
                return False
            if glance.quiet and self._follows(glance):
                self._skip_to(head, final_before)
                return True
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

    def _follows(self, glance: Glance) -> bool:
        """Return whether a newest block may come after the known head; its parent may deny it."""
        known = self._hashes.get(self.head, glance.parent_hash)
        return glance.head.number > self.head + 1 or glance.parent_hash == known

    def _skip_to(self, head: Head, final: int) -> None:
        """Move on to a head; what is above the block that was final is to be read again."""
        count, begun = head.number - self.head, self.time
        if count > 1:
            # blocks in between may replace what is remembered: it is asked for again
            self._hashes.clear()
        first = max(min(final, self.head) + 1, self._begun)
        if self.doubtful:
            # what comes before was final when it was read
            first = self.doubtful.start
        self.doubtful = range(first, head.number + 1)
        for back in range(min(count, _TIMES) - 1, -1, -1):
            self._times.append(head.time - (head.time - begun) * back // count)
        self._remember(head.number, head.hash)

    @property
    def newest_final(self) -> int:
        """The newest block that is final, below 0 if there is none."""
        by_count = self.head - self._confirmations + 1
        return by_count if self._final is None else min(by_count, self._final)

    def _add(self, view: BlockView) -> None:
        self._times.append(view.time)
        if not view.complete:
            first = self.doubtful.start if self.doubtful else view.number
            self.doubtful = range(min(first, view.number), view.number + 1)
        self.evidence.fresh += view.paid
        for mined in view.mined:
            self.evidence.mined[mined.tx_hash] = mined
        self._remember(view.number, view.hash)

    def _remember(self, head: int, block_hash: str) -> None:
        """Move the head on to a block, and forget what lies deep."""
        self.head = head
        self._hashes[head] = block_hash
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
        depth = 0 if self._final is None else self.head - self._final
        return self.head - 4 * min(max(self._confirmations, 16, depth), _DEPTH_MAX)

    async def _rewind(self, head: Head) -> None:
        """Steps back to the newest remembered block that is still part of the chain."""
        number = min(self.head, head.number)
        while number in self._hashes:
            view = await self._blocks.block(number)
            if view is not None and view.hash == self._hashes[number]:
                break
            number -= 1
        if number not in self._hashes and number in self.doubtful:
            # nothing is known of blocks that were not read; a transaction may be in any of them now
            number = self.doubtful.start - 1
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
    return BlockFollower(rail.observer, rail.blocks, rail.confirmations, rail.reorg_depth)
