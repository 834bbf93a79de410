"""A Solana cluster's proofs, from a single node or from the quorum."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import orjson
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from florin_server.domain.payments.payment import ResolvedBuild
from florin_server.domain.settlement.chain_txs import ChainTx, SettlementItem
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.jsonrpc import ChainRpc
from florin_server.rails.solana.paying.terms import DIRECT_METHOD
from florin_server.rails.solana.reading import referenced
from florin_server.rails.solana.reading.evidence import (
    EndReason,
    SettlementTransaction,
    SolanaEvidenceReader,
)
from florin_server.rails.solana.reading.gaps import HistoryGaps
from florin_server.rails.solana.reading.holdings import read_holdings
from florin_server.rails.solana.reading.node import SolanaNode
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import (
    TRANSFER_METHOD,
    ChainHead,
    Fact,
    MinedTransaction,
    SettlementEvent,
)

_SENT_BY_WALLETS = frozenset({DIRECT_METHOD, TRANSFER_METHOD})


class SolanaObserver:
    """Implement the ChainObserver protocol; only final data is returned.

    `get_settlement_transaction` returns the transaction that settles a relayed item. Only the
    relayer can have sent it, because it needs the relayer's signature. `on_new_head` is called with
    each newest finalized slot.
    """

    def __init__(
        self,
        connection: ChainConnection,
        chain: SolanaChainSettings,
        gaps: HistoryGaps,
        get_settlement_transaction: Callable[[SettlementItem], SettlementTransaction],
        on_new_head: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._chain = chain
        self._gaps = gaps
        self._get_settlement_transaction = get_settlement_transaction
        self._on_new_head = on_new_head
        self._node = SolanaNode(connection.rpc)
        self.evidence = self.create_evidence(connection.rpc)

    @property
    def agreement(self) -> int:
        """Return how many nodes must confirm what ends a payment."""
        return self._connection.rpc.agreement

    async def get_head(self) -> ChainHead:
        """Return the newest finalized slot."""
        head = await self.evidence.get_head()
        self._connection.block_notifier.record_head(head.number)
        self._on_new_head(head.number)
        return head

    async def find_mined(self, tx_hashes: Sequence[str]) -> dict[str, MinedTransaction]:
        """Return which of our transactions are final; absence proves nothing."""
        return await self.evidence.find_mined(tx_hashes)

    async def find_settlement_events(
        self, items: Sequence[SettlementItem]
    ) -> list[SettlementEvent]:
        """Return the settlement events of the items' transactions that are final."""
        relayed_items = [item for item in items if item.option.method not in _SENT_BY_WALLETS]
        candidates = [
            (str(orjson.loads(item.confirmation.outputs[-1])), item.option)
            for item in items
            if item.option.method in _SENT_BY_WALLETS
        ]
        events = await self.evidence.list_settlement_events(
            [self._get_settlement_transaction(item) for item in relayed_items]
        )
        if not candidates:
            return events
        result = await referenced.find_events(self._node, self._chain, candidates)
        return [*events, *result.events]

    async def read_holdings(
        self, asset_accounts: Collection[tuple[str, str]], min_block: int
    ) -> dict[tuple[str, str], int]:
        """Return the balances of accounts at the newest finalized slot; one batched read."""
        return await read_holdings(self._node, self._chain.coin_id, asset_accounts, min_block)

    async def confirm_facts(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Return for each fact whether the quorum confirms it."""
        expected_facts = frozenset(facts)
        verdicts = await self._connection.quorum.confirm_facts(
            expected_facts,
            lambda rpc: self.create_evidence(rpc).attest(expected_facts, self.evidence),
        )
        self.evidence.forget_records(
            fact.tx_hash for fact, is_true in verdicts.items() if not is_true
        )
        return verdicts

    async def cannot_be_mined(self, tx: ChainTx, resolved_builds: Sequence[ResolvedBuild]) -> bool:
        """Return True if the transaction expired: no block can include it, and none does."""
        message = VersionedTransaction.from_bytes(tx.raw).message
        if not isinstance(message, MessageV0):
            return False

        async def find_lapse(rpc: ChainRpc) -> EndReason | None:
            reason = await self.create_evidence(rpc).find_end_reason(
                tx.hash, message, resolved_builds, tx.since_block or 0
            )
            # one that failed on chain was mined: it ends with its fee, once a node returns it
            return None if reason is not None and reason.has_landed else reason

        return await self._connection.quorum.read_unanimous(find_lapse) is not None

    async def find_unpayable_reason(
        self, item: SettlementItem, resolved_builds: Sequence[ResolvedBuild]
    ) -> str | None:
        """Return why the item will never be paid, judged at final depth; None while it can."""
        if item.option.method in _SENT_BY_WALLETS:
            # a wallet can sign the same transfer again with another blockhash, for ever
            return None
        transaction = self._get_settlement_transaction(item)
        reason = await self._connection.quorum.read_unanimous(
            lambda rpc: self.create_evidence(rpc).find_end_reason(
                transaction.hash, transaction.submission.message, resolved_builds
            )
        )
        return None if reason is None else reason.text

    def create_evidence(self, rpc: ChainRpc) -> SolanaEvidenceReader:
        """Return the evidence of one node, or of the preferred node."""
        return SolanaEvidenceReader(SolanaNode(rpc), self._chain, self._gaps)
