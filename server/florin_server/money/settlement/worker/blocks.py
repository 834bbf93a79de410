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
from florin_server.rails.roles import BlockReader, ChainObserver
from florin_server.rails.types import (
    BlockView,
    ChainFact,
    ChainHead,
    HeadUpdate,
    MinedTransaction,
    SettlementEvent,
)

# blocks read in one turn; the next turn reads more, so that other work gets its turn
_BLOCKS_PER_POLL = 64
# blocks above the newest final one that are remembered, however late blocks become final
_DEPTH_MAX = 1000
# slots for which agreements are remembered; a repeated request is only a read
_HISTORY_MAX = 1000
# the interval is measured over this many blocks and limited: idle test chains add no blocks
_TIMES_MAX, _INTERVAL_MAX_S = 16, 60


@dataclass(slots=True)
class ChainEvidence:
    """Evidence of the chain now: settlement events by reference, own transactions by hash.

    `new_events` are all events of blocks that were read since the relevant ones were last taken
    out. Contracts are shared and anyone can call them, so most events do not concern Florin.
    """

    settlement_events: dict[str, list[SettlementEvent]] = field(default_factory=dict)
    mined_transactions: dict[str, MinedTransaction] = field(default_factory=dict)
    new_events: list[SettlementEvent] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Return whether there is any evidence."""
        return bool(self.settlement_events or self.mined_transactions or self.new_events)

    def add_event(self, event: SettlementEvent) -> None:
        """Remember an event once."""
        events = self.settlement_events.setdefault(event.ref, [])
        if event not in events:
            events.append(event)

    def consume(self, ref: str, is_proof: Callable[[SettlementEvent], bool]) -> None:
        """Drop the events of a reference that ended their payment; others may be late money."""
        events = [event for event in self.settlement_events.pop(ref, ()) if not is_proof(event)]
        if events:
            self.settlement_events[ref] = events

    def drop_from(self, number: int) -> None:
        """Drop everything from a block on."""
        for ref in list(self.settlement_events):
            events = [event for event in self.settlement_events[ref] if event.block_number < number]
            if events:
                self.settlement_events[ref] = events
            else:
                del self.settlement_events[ref]
        self.mined_transactions = {
            tx_hash: mined
            for tx_hash, mined in self.mined_transactions.items()
            if mined.block_number < number
        }
        self.new_events = [event for event in self.new_events if event.block_number < number]

    def drop_below(self, number: int, pinned: Container[str]) -> None:
        """Drop what is older than a block, except events of some references.

        It can be requested again.
        """
        for ref in [event_ref for event_ref in self.settlement_events if event_ref not in pinned]:
            events = [
                event for event in self.settlement_events[ref] if event.block_number >= number
            ]
            if events:
                self.settlement_events[ref] = events
            else:
                del self.settlement_events[ref]
        self.mined_transactions = {
            tx_hash: mined
            for tx_hash, mined in self.mined_transactions.items()
            if mined.block_number >= number
        }

    def drop(self, fact: ChainFact) -> None:
        """Drop a fact that is not true."""
        if isinstance(fact, MinedTransaction):
            if self.mined_transactions.get(fact.tx_hash) == fact:
                del self.mined_transactions[fact.tx_hash]
            return
        # a loop over the events continues with the former list
        self.settlement_events[fact.ref] = [
            event for event in self.settlement_events.get(fact.ref, ()) if event != fact
        ]
        if not self.settlement_events[fact.ref]:
            del self.settlement_events[fact.ref]

    def list_facts(self, number: int, block_hash: str) -> frozenset[ChainFact]:
        """Return the evidence of a block."""
        facts: list[ChainFact] = [
            event for events in self.settlement_events.values() for event in events
        ]
        facts += self.mined_transactions.values()
        return frozenset(
            fact for fact in facts if fact.block_number == number and fact.block_hash == block_hash
        )


class FactAgreement:
    """The facts that enough nodes confirmed.

    Nodes are asked for all of a block together, once a turn.
    """

    def __init__(
        self,
        observer: ChainObserver,
        evidence: ChainEvidence,
        is_final: Callable[[ChainFact], bool],
    ) -> None:
        self._observer = observer
        self._evidence = evidence
        self._is_final = is_final
        self._agreed_facts: set[ChainFact] = set()
        self._queried_facts: set[ChainFact] = set()

    def reset(self) -> None:
        """Start a new turn: facts without agreement can be confirmed now."""
        self._queried_facts.clear()

    async def is_agreed(self, fact: ChainFact) -> bool:
        """Return True if enough nodes confirm the fact; drop it if they differ.

        The true fact is requested again, like everything that no block showed.
        """
        if self._observer.agreement == 1 or fact in self._agreed_facts:
            return True
        facts = self._evidence.list_facts(fact.block_number, fact.block_hash)
        # in one block, larger amounts can become final later
        facts = frozenset(filter(self._is_final, facts)) | {fact}
        if new_facts := facts - self._agreed_facts - self._queried_facts:
            self._queried_facts |= new_facts
            for queried_fact, is_true in (await self._observer.confirm_facts(new_facts)).items():
                if is_true:
                    self._agreed_facts.add(queried_fact)
                else:
                    self._evidence.drop(queried_fact)
        return fact in self._agreed_facts

    def drop_below(self, number: int) -> None:
        """Drop what is older than a block."""
        self._agreed_facts = {fact for fact in self._agreed_facts if fact.block_number >= number}


class HeadFollower:
    """The newest final block of a chain whose blocks are not read; evidence is requested."""

    rewind_count = 0
    time = 0
    interval = 0
    doubtful_blocks = range(0)

    def __init__(self, observer: ChainObserver) -> None:
        self._observer = observer
        self.head = 0
        self.evidence = ChainEvidence()
        self._agreement = FactAgreement(
            observer, self.evidence, lambda fact: self.is_final(fact.block_number)
        )

    @property
    def newest_final(self) -> int:
        """Return the head: blocks that are not final are not reported."""
        return self.head

    async def start(self) -> None:
        """Start at the head."""
        self.head = (await self._observer.get_head()).number

    def is_final(self, number: int) -> bool:
        """Return True if a block is final."""
        return number <= self.head

    async def is_settled(self, fact: ChainFact) -> bool:
        """Return True if a fact is final, and enough nodes confirm it; what is final stays."""
        return self.is_final(fact.block_number) and await self._agreement.is_agreed(fact)

    async def find_block_hash(self, number: int) -> str | None:  # noqa: ARG002
        """Return None: blocks are not read."""
        return None

    async def poll(self, *, is_idle: bool = False) -> bool:  # noqa: ARG002
        """Return True if the head moved."""
        self._agreement.reset()
        self._agreement.drop_below(self.head - _HISTORY_MAX)
        return self._accept_head(await self._observer.get_head())

    def drop_old(self, pinned: Container[str]) -> None:
        """Drop evidence that is not needed soon, except events of some references."""
        self.evidence.drop_below(self.head - _HISTORY_MAX, pinned)

    def _accept_head(self, head: ChainHead) -> bool:
        """Remember the newest final block; a node may lag behind what was seen."""
        before, self.head = self.head, max(self.head, head.number)
        return self.head != before


class BlockFollower:
    """The newest blocks of one chain, and the evidence in them.

    `rewind_count` counts how often blocks were replaced; `time` is the newest block's, in Unix
    seconds, and `interval` the seconds between the newest blocks, at most a stated number.
    `doubtful_blocks` spans the blocks whose events may be incomplete; reading them again shortens
    it. While the caller waits for nothing, blocks without events are not read one by one, and are
    doubtful.
    """

    def __init__(
        self, observer: ChainObserver, blocks: BlockReader, confirmations: int, reorg_depth: int = 0
    ) -> None:
        self._observer = observer
        self._blocks = blocks
        self._confirmations = confirmations
        self._reorg_depth = max(confirmations, reorg_depth)
        self._final_block: int | None = None  # from the rail; None if only the count decides
        self._hashes: dict[int, str] = {}
        self._times: deque[int] = deque(maxlen=_TIMES_MAX)
        self._start_block = 0
        self.rewind_count = 0
        self.head = 0
        self.doubtful_blocks = range(0)
        self.evidence = ChainEvidence()
        self._agreement = FactAgreement(observer, self.evidence, self._is_deep)

    async def start(self) -> None:
        """Start at the head; earlier blocks are requested when they are needed."""
        head = await self._observer.get_head()
        self._final_block = head.final
        self.head = head.number
        # a request for earlier blocks also covers blocks that could be replaced
        self._start_block = max(0, head.number - self._reorg_depth)
        self._hashes = {head.number: head.hash}
        self._times.clear()
        self._times.append(head.time)

    @property
    def time(self) -> int:
        """Return the time of the newest block, in Unix seconds."""
        return self._times[-1]

    @property
    def interval(self) -> int:
        """Return the seconds between the newest blocks."""
        gaps = sorted(later - earlier for earlier, later in pairwise(self._times))
        return min(max(gaps[len(gaps) // 2], 1), _INTERVAL_MAX_S) if gaps else 1

    def is_final(self, number: int) -> bool:
        """Return True if a block is as deep as the chain's settings require."""
        if self._final_block is not None and number > self._final_block:
            return False
        return self.head - number + 1 >= self._confirmations

    def _is_deep(self, fact: ChainFact) -> bool:
        """Return whether a fact's block is final; for a payment, at the depth of its amount."""
        if not self.is_final(fact.block_number):
            return False
        return not isinstance(fact, SettlementEvent) or self._blocks.is_deep(fact, self.head)

    async def is_settled(self, fact: ChainFact) -> bool:
        """Return True if a fact's block is final, on the chain, and enough nodes confirm it."""
        if not self._is_deep(fact):
            return False
        current_hash = await self.find_block_hash(fact.block_number)
        if current_hash not in {None, fact.block_hash}:
            # reported by a node for a block that this follower never read, and that was replaced
            self.evidence.drop(fact)
        return current_hash == fact.block_hash and await self._agreement.is_agreed(fact)

    async def find_block_hash(self, number: int) -> str | None:
        """Return the hash of the block with a number now; None if the chain has none (yet)."""
        block_hash = self._hashes.get(number)
        if block_hash is None:
            view = await self._blocks.find_block(number)
            block_hash = view.hash if view else None
        return block_hash

    async def poll(self, *, is_idle: bool = False) -> bool:
        """Read new blocks; return True if there were any.

        `is_idle` means that the caller waits for nothing and reads doubtful blocks again.
        """
        self._agreement.reset()
        head_update = (
            await self._blocks.poll_head(self.head) if is_idle and not self.evidence else None
        )
        final_before = self.newest_final
        head = head_update.head if head_update else await self._observer.get_head()
        self._final_block = head.final
        if head.number == self.head and self._hashes.get(head.number) == head.hash:
            return False
        if head_update is not None and head.number > self.head:
            if head_update.is_quiet is None:
                return False
            if head_update.is_quiet and self._may_follow(head_update):
                self._skip_to(head, final_before)
                return True
        if head.number <= self.head:
            # a higher block shows by its parent whether those before it were replaced
            await self._rewind(head)
        while self.head < head.number:
            view = await self._blocks.find_block(self.head + 1)
            if view is None:
                break
            if view.parent_hash != self._hashes.get(self.head, view.parent_hash):
                await self._rewind(head)
                continue
            self._add(view)
            if head.number - self.head >= _BLOCKS_PER_POLL and self.head % _BLOCKS_PER_POLL == 0:
                break
        return True

    def _may_follow(self, head_update: HeadUpdate) -> bool:
        """Return whether a new head may follow the known one; its parent hash can rule that out."""
        head_hash = self._hashes.get(self.head, head_update.parent_hash)
        return head_update.head.number > self.head + 1 or head_update.parent_hash == head_hash

    def _skip_to(self, head: ChainHead, final_before: int) -> None:
        """Jump to a head; blocks above the one that was final before must be read again."""
        count, start_time = head.number - self.head, self.time
        if count > 1:
            # blocks in between may replace remembered blocks: they are requested again
            self._hashes.clear()
        first = max(min(final_before, self.head) + 1, self._start_block)
        if self.doubtful_blocks:
            # earlier blocks were final when they were read
            first = self.doubtful_blocks.start
        self.doubtful_blocks = range(first, head.number + 1)
        for blocks_left in range(min(count, _TIMES_MAX) - 1, -1, -1):
            self._times.append(head.time - (head.time - start_time) * blocks_left // count)
        self._advance_head(head.number, head.hash)

    @property
    def newest_final(self) -> int:
        """Return the newest block that is final; below 0 if no block is final."""
        by_count = self.head - self._confirmations + 1
        return by_count if self._final_block is None else min(by_count, self._final_block)

    def _add(self, view: BlockView) -> None:
        self._times.append(view.time)
        if not view.is_complete:
            first = self.doubtful_blocks.start if self.doubtful_blocks else view.number
            self.doubtful_blocks = range(min(first, view.number), view.number + 1)
        self.evidence.new_events += view.events
        for mined in view.transactions:
            self.evidence.mined_transactions[mined.tx_hash] = mined
        self._advance_head(view.number, view.hash)

    def _advance_head(self, head: int, block_hash: str) -> None:
        """Move the head on to a block, and forget what lies deep."""
        self.head = head
        self._hashes[head] = block_hash
        for number in [n for n in self._hashes if n < self._oldest_block]:
            del self._hashes[number]
        self._agreement.drop_below(self._oldest_block)

    def drop_old(self, pinned: Container[str]) -> None:
        """Drop evidence that is not needed soon, except events of some references."""
        self.evidence.drop_below(self._oldest_block, pinned)

    @property
    def _oldest_block(self) -> int:
        """Return the lowest block that a reorganization can replace, as far as that is handled.

        Earlier blocks are requested again if they are ever needed.
        """
        depth = 0 if self._final_block is None else self.head - self._final_block
        return self.head - 4 * min(max(self._confirmations, 16, depth), _DEPTH_MAX)

    async def _rewind(self, head: ChainHead) -> None:
        """Step back to the newest remembered block that is still part of the chain."""
        number = min(self.head, head.number)
        while number in self._hashes:
            view = await self._blocks.find_block(number)
            if view is not None and view.hash == self._hashes[number]:
                break
            number -= 1
        if number not in self._hashes and number in self.doubtful_blocks:
            # blocks that were not read are unknown; a transaction can be in any of them now
            number = self.doubtful_blocks.start - 1
        for stale in [n for n in self._hashes if n > number]:
            del self._hashes[stale]
        if number < self.head:
            self.evidence.drop_from(number + 1)
            self.rewind_count += 1
        self.head = number


ChainFollower = BlockFollower | HeadFollower


def create_follower(rail: Rail) -> ChainFollower:
    """Return the follower that fits a chain."""
    if rail.blocks is None:
        return HeadFollower(rail.observer)
    return BlockFollower(rail.observer, rail.blocks, rail.confirmations, rail.reorg_depth)
