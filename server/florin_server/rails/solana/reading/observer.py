"""What a Solana cluster proves, as one node tells it, or as many as have to agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from florin_server.domain.payments.payment import ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx
from florin_server.rails.connection.connection import Connection
from florin_server.rails.connection.jsonrpc import Rpc
from florin_server.rails.solana.reading.evidence import Evidence, Landing
from florin_server.rails.solana.reading.gaps import Gaps
from florin_server.rails.solana.reading.holdings import holdings
from florin_server.rails.solana.reading.node import Node
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import Fact, Head, Mined, Paid


class SolanaObserver:
    """Implements the Observer protocol; only what is final is told.

    `landing_of` tells the transaction that settles an item. Nobody else can have sent it: it needs
    the relayer's signature. `moved` is called with each newest finalized slot.
    """

    def __init__(
        self,
        connection: Connection,
        chain: SolanaChain,
        gaps: Gaps,
        landing_of: Callable[[Accepted], Landing],
        moved: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._chain = chain
        self._gaps = gaps
        self._landing_of = landing_of
        self._moved = moved
        self._node = Node(connection.rpc)
        self.evidence = self.evidence_of(connection.rpc)

    @property
    def agreement(self) -> int:
        """How many nodes must tell what ends a payment."""
        return self._connection.rpc.agreement

    async def head(self) -> Head:
        """The newest finalized slot."""
        head = await self.evidence.head()
        self._connection.news.saw(head.number)
        self._moved(head.number)
        return head

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Which of our transactions are final; absent ones tell nothing."""
        return await self.evidence.mined(tx_hashes)

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        """What the items' transactions paid, as far as they are final."""
        return await self.evidence.paid([self._landing_of(item) for item in items])

    async def holdings(
        self, places: Collection[tuple[str, str]], least: int
    ) -> dict[tuple[str, str], int]:
        """What accounts hold of assets at the newest finalized slot; one batched read."""
        return await holdings(self._node, self._chain.coin_id, places, least)

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Which facts as many nodes tell as have to agree."""
        wanted = frozenset(facts)
        verdicts = await self._connection.witnesses.agreed(
            wanted, lambda rpc: self.evidence_of(rpc).testify(wanted, self.evidence)
        )
        self.evidence.forget(fact.tx_hash for fact, is_true in verdicts.items() if not is_true)
        return verdicts

    async def cannot_be_mined(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:
        """True if the transaction lapsed: no block can hold it any more, and none does."""
        message = VersionedTransaction.from_bytes(tx.raw).message
        if not isinstance(message, MessageV0):
            return False
        end = await self._end(tx.hash, message, issued, tx.since_block or 0)
        return end is not None

    async def unpayable_reason(self, item: Accepted, issued: Sequence[ResolvedBuild]) -> str | None:
        """Why the item will never be paid, judged at final depth; None while it may."""
        one = self._landing_of(item)
        return await self._end(one.hash, one.submission.message, issued)

    def evidence_of(self, rpc: Rpc) -> Evidence:
        """What one node, or the preferred one, proves."""
        return Evidence(Node(rpc), self._chain, self._gaps)

    async def _end(
        self, tx_hash: str, message: MessageV0, issued: Sequence[ResolvedBuild], since: int = 0
    ) -> str | None:
        return await self._connection.witnesses.unanimous(
            lambda rpc: self.evidence_of(rpc).end(tx_hash, message, issued, since)
        )
