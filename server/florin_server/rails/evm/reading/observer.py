"""What an EVM chain proves, as one node tells it, or as many as have to agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from florin_server.domain.payments.payment import ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx
from florin_server.rails.connection.connection import Connection
from florin_server.rails.connection.jsonrpc import Rpc
from florin_server.rails.evm.paying.terms import EvmTerms
from florin_server.rails.evm.reading.evidence import Evidence, nonce_used
from florin_server.rails.evm.reading.holdings import holdings
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import BlockView, Fact, Head, Mined, Paid


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
    ) -> None:
        self._connection = connection
        self._chain = chain
        self._senders = senders
        self._refusals = refusals
        self._moved = moved
        self._node = Node(connection.rpc)
        self._terms = EvmTerms()
        self.evidence = self._evidence_of(connection.rpc)
        self._head: Head | None = None

    @property
    def agreement(self) -> int:
        """How many nodes must tell what ends a payment."""
        return self._connection.rpc.agreement

    async def head(self) -> Head:
        """The newest block."""
        head = await self.evidence.head()
        self._connection.news.saw(head.number)
        if head != self._head:
            self._head = head
            self._moved()
        return head

    async def block(self, number: int) -> BlockView | None:
        """One block; None if the chain does not have it (yet, or any more)."""
        return await self.evidence.block(number)

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Which of our transactions are in a block, one batched read; absent ones tell nothing."""
        return await self.evidence.mined(tx_hashes)

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        """Settlement events of the items, whoever submitted them."""
        references = [self._terms.reference(item.option) for item in items]
        return await self.evidence.paid(references, min(item.from_block for item in items))

    async def holdings(
        self, places: Collection[tuple[str, str]], least: int
    ) -> dict[tuple[str, str], int]:
        """What accounts hold of assets at the newest final block; one batched read."""
        return await holdings(self._node, self._chain, places, least)

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Which facts as many nodes tell as have to agree, at final depth."""
        wanted = frozenset(facts)
        return await self._connection.witnesses.agreed(
            wanted, lambda rpc: self._evidence_of(rpc).testify(wanted)
        )

    async def cannot_be_mined(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:  # noqa: ARG002
        """True if another transaction with its nonce is final, or it is itself."""

        async def answer(rpc: Rpc) -> bool | None:
            if not await nonce_used(Node(rpc), self._chain, tx.sender, tx.nonce):
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

    async def replaced(self, number: int, block_hash: str) -> bool:
        """True if as many nodes as have to agree tell of another block in the place of one."""
        if self.agreement == 1:
            return True

        async def other(rpc: Rpc) -> bool | None:
            found = await self._evidence_of(rpc).hash_of(number)
            return None if found in {None, block_hash} else True

        return await self._connection.witnesses.unanimous(other) is not None

    def _evidence_of(self, rpc: Rpc) -> Evidence:
        return Evidence(Node(rpc), self._chain, self._senders)
