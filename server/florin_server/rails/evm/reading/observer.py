"""What an EVM chain proves, as one node tells it, or as many as have to agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from florin_server.domain.payments.payment import ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx
from florin_server.rails.connection.connection import Connection
from florin_server.rails.connection.jsonrpc import Rpc
from florin_server.rails.evm.paying.terms import EvmTerms
from florin_server.rails.evm.reading.evidence import Evidence, nonce_used
from florin_server.rails.evm.reading.finality import Finality
from florin_server.rails.evm.reading.holdings import holdings
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import BlockView, Fact, Glance, Head, Mined, Paid, SeenHead

T = TypeVar("T")


class EvmObserver:
    """Implements the Observer and Blocks protocols; `senders` are those whose transactions count.

    `moved` is called when there is another head than before.
    """

    def __init__(
        self,
        connection: Connection,
        chain: EvmChain,
        senders: Collection[str],
        refusals: Refusals,
        moved: Callable[[], None],
        *,
        finality: Finality | None = None,
    ) -> None:
        self.finality = finality or Finality(chain)
        self._connection = connection
        self._chain = chain
        self._senders = senders
        self._refusals = refusals
        self._moved = moved
        self._terms = EvmTerms()
        self.evidence = self._evidence_of(connection.rpc)
        self._head: Head | None = None

    @property
    def agreement(self) -> int:
        """How many nodes must tell what ends a payment."""
        return self._connection.rpc.agreement

    async def head(self) -> Head:
        """The newest block."""
        return self._saw(await self.read(lambda evidence: evidence.head()))

    async def glance(self, since: int) -> Glance:
        """The newest block, and whether those after a known one have settlement events."""
        glance = await self.read(lambda evidence: evidence.glance(since))
        self._saw(glance.head)
        return glance

    def _saw(self, head: Head) -> Head:
        self._connection.news.saw(head.number)
        # each look reads all new blocks: an idle chain is looked at as the settings say
        pace = self.finality.pace.block_s if self.finality.is_awaited else None
        self._connection.news.follow_pace(pace)
        if head != self._head:
            self._head = head
            self._moved()
        return head

    async def block(self, number: int) -> BlockView | None:
        """One block; None if the chain does not have it (yet, or any more)."""
        view = await self.read(lambda evidence: evidence.block(number))
        if view is not None:
            self.finality.forget_replaced(number, view.hash)
        return view

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Which of our transactions are in a block, one batched read; absent ones tell nothing."""
        return await self.read(lambda evidence: evidence.mined(tx_hashes))

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        """Settlement events of the items, whoever submitted them."""
        references = [self._terms.reference(item.option) for item in items]
        first = min(item.from_block for item in items)
        return await self.read(lambda evidence: evidence.paid(references, first))

    async def holdings(
        self, places: Collection[tuple[str, str]], least: int
    ) -> dict[tuple[str, str], int]:
        """What accounts hold of assets at the newest final block; one batched read."""
        return await self._connection.rpc.any_of(
            lambda rpc: holdings(Node(rpc), self._chain, self.finality, places, least)
        )

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Which facts as many nodes tell as have to agree, at final depth."""
        wanted = frozenset(facts)
        return await self._connection.witnesses.agreed(
            wanted, lambda rpc: self._evidence_of(rpc).testify(wanted)
        )

    async def cannot_be_mined(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:  # noqa: ARG002
        """True if another transaction with its nonce is final, or it is itself."""

        async def answer(rpc: Rpc) -> bool | None:
            if not await nonce_used(Node(rpc), self.finality, tx.sender, tx.nonce):
                return None
            # the caller looks for it too, but one node may hide it; any variant may be mined
            return None if await self._evidence_of(rpc).mined(tx.hashes) else True

        return await self._connection.witnesses.unanimous(answer) is not None

    async def unpayable_reason(
        self,
        item: Accepted,
        issued: Sequence[ResolvedBuild],  # noqa: ARG002
    ) -> str | None:
        """Why the item's authorization can never be used again; None while it can."""

        async def answer(rpc: Rpc) -> str | None:
            evidence = self._evidence_of(rpc)
            found = await evidence.spent_or_lapsed(item.option)
            if found is None or self.agreement == 1:
                return found
            # the caller looks for the event too, but one node may hide it
            events = await evidence.paid([self._terms.reference(item.option)], item.from_block)
            return None if any(self._terms.proves(item.option, one) for one in events) else found

        reason = await self._connection.witnesses.unanimous(answer)
        return reason and reason + await self._refusals.at_the_end(item.option)

    def list_seen(self) -> Sequence[SeenHead]:
        """Return when heads were first seen, sparsely, for the next process."""
        return self.finality.list_seen()

    async def restore_seen(self, heads: Sequence[SeenHead]) -> None:
        """Use when an earlier process saw heads, of those that are part of the chain still.

        As many nodes as have to agree must say so of each.
        """

        async def is_canonical(head: SeenHead) -> bool:
            async def answer(rpc: Rpc) -> bool | None:
                found = await self._evidence_of(rpc).hash_of(head.number)
                return True if found == head.hash else None

            return await self._connection.witnesses.unanimous(answer) is not None

        verdicts = await asyncio.gather(*map(is_canonical, heads))
        kept = [head for head, is_kept in zip(heads, verdicts, strict=True) if is_kept]
        self.finality.restore_seen(kept)

    def is_deep(self, paid: Paid, head: int) -> bool:
        """Return whether a payment's block is final for its amount, below a head."""
        after_s = self._chain.final_after(paid.token, paid.value)
        return paid.block_number <= self.finality.final_at(head, after_s)

    async def replaced(self, number: int, block_hash: str) -> bool:
        """True if as many nodes as have to agree tell of another block in the place of one."""
        if self.agreement == 1:
            return True

        async def other(rpc: Rpc) -> bool | None:
            found = await self._evidence_of(rpc).hash_of(number)
            return None if found in {None, block_hash} else True

        return await self._connection.witnesses.unanimous(other) is not None

    async def read(self, ask: Callable[[Evidence], Awaitable[T]]) -> T:
        """Return what nodes prove; a node whose answer cannot be used is passed over."""
        rpc = self._connection.rpc

        async def answer(one: Rpc) -> T:
            return await ask(self.evidence if one is rpc else self._evidence_of(one))

        return await rpc.any_of(answer)

    def _evidence_of(self, rpc: Rpc) -> Evidence:
        return Evidence(Node(rpc), self._chain, self._senders, self.finality)
