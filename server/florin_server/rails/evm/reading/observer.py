"""An EVM chain's proofs, from a single node or from the quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from florin_server.domain.payments.payment import ResolvedBuild
from florin_server.domain.settlement.chain_txs import ChainTx, SettlementItem
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.jsonrpc import ChainRpc
from florin_server.rails.evm.paying.terms import EvmTermsReader
from florin_server.rails.evm.reading.evidence import EvmEvidenceReader, is_nonce_used
from florin_server.rails.evm.reading.finality import FinalityTracker
from florin_server.rails.evm.reading.holdings import read_holdings
from florin_server.rails.evm.reading.node import EvmNode, parse_hash
from florin_server.rails.evm.reading.refusals import TokenRefusals
from florin_server.rails.evm.sending.past_transactions import find_transaction
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import (
    BlockView,
    ChainHead,
    Fact,
    HeadUpdate,
    MinedTransaction,
    ObservedHead,
    RailUnavailable,
    SettlementEvent,
)

T = TypeVar("T")

# blocks whose states every node keeps; most keep 128 behind their head
_STATES_KEPT: Final = 64


class EvmObserver:
    """Implement the ChainObserver and BlockReader protocols; only transactions of `senders` count.

    `on_new_head` is called on each new head.
    """

    def __init__(
        self,
        connection: ChainConnection,
        chain: EvmChainSettings,
        senders: Collection[str],
        refusals: TokenRefusals,
        on_new_head: Callable[[], None],
        *,
        finality: FinalityTracker | None = None,
    ) -> None:
        self.finality = finality or FinalityTracker(chain)
        self._connection = connection
        self._chain = chain
        self._senders = senders
        self._refusals = refusals
        self._on_new_head = on_new_head
        self._terms = EvmTermsReader()
        self.evidence = self._create_evidence(connection.rpc)
        self._head: ChainHead | None = None

    @property
    def agreement(self) -> int:
        """Return how many nodes must confirm what ends a payment."""
        return self._connection.rpc.agreement

    async def get_head(self) -> ChainHead:
        """Return the newest block."""
        return self._record_head(await self.read_any(lambda evidence: evidence.get_head()))

    async def poll_head(self, since: int) -> HeadUpdate:
        """Return the newest block, and whether blocks after `since` have settlement events."""
        glance = await self.read_any(lambda evidence: evidence.poll_head(since))
        self._record_head(glance.head)
        return glance

    def _record_head(self, head: ChainHead) -> ChainHead:
        self._connection.block_notifier.record_head(head.number)
        # each poll reads all new blocks, so an idle chain is polled at the pace of the settings
        pace = self.finality.pace.block_s if self.finality.is_awaited else None
        self._connection.block_notifier.follow_pace(pace)
        if head != self._head:
            self._head = head
            self._on_new_head()
        return head

    async def find_block(self, number: int) -> BlockView | None:
        """Return a block; None if the chain does not have it (yet, or any more)."""
        view = await self.read_any(lambda evidence: evidence.find_block(number))
        if view is not None:
            self.finality.forget_replaced(number, view.hash)
        return view

    async def find_mined(self, tx_hashes: Sequence[str]) -> dict[str, MinedTransaction]:
        """Return which of our transactions are in a block.

        Absence proves nothing; one batched read.
        """
        return await self.read_any(lambda evidence: evidence.find_mined(tx_hashes))

    async def find_settlement_events(
        self, items: Sequence[SettlementItem]
    ) -> list[SettlementEvent]:
        """Return settlement events of the items, by any submitter."""
        references = [self._terms.get_reference(item.option) for item in items]
        first = min(item.from_block for item in items)
        return await self.read_any(
            lambda evidence: evidence.list_settlement_events(references, first)
        )

    async def read_holdings(
        self, asset_accounts: Collection[tuple[str, str]], min_block: int
    ) -> dict[tuple[str, str], int]:
        """Return the balances of accounts at the newest final block; one batched read."""
        return await self._connection.rpc.ask_together_or_each(
            lambda rpc: read_holdings(
                EvmNode(rpc), self._chain, self.finality, asset_accounts, min_block
            )
        )

    async def confirm_facts(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Return for each fact whether the quorum confirms it at final depth."""
        expected_facts = frozenset(facts)
        return await self._connection.quorum.confirm_facts(
            expected_facts, lambda rpc: self._create_evidence(rpc).attest(expected_facts)
        )

    async def cannot_be_mined(self, tx: ChainTx, resolved_builds: Sequence[ResolvedBuild]) -> bool:  # noqa: ARG002
        """Return True if another transaction with its nonce is final, and was itself seen.

        A receipt that a node does not have proves nothing: nodes index receipts late. Only for
        transactions that are older than the states of nodes it has to suffice.
        """

        async def answer(rpc: ChainRpc) -> bool | None:
            node = EvmNode(rpc)
            final = await node.find_final_block(self.finality)
            if final is None:
                return None
            try:
                taker = await find_transaction(node, tx.sender, tx.nonce, final)
            except RailUnavailable:
                if tx.sent_block is not None and final - tx.sent_block < _STATES_KEPT:
                    raise
                if not await is_nonce_used(node, self.finality, tx.sender, tx.nonce):
                    return None
                return None if await self._create_evidence(rpc).find_mined(tx.hashes) else True
            is_other = taker is not None and parse_hash(taker.get("hash")) not in tx.hashes
            return True if is_other else None

        return await self._connection.quorum.read_unanimous(answer) is not None

    async def find_unpayable_reason(
        self,
        item: SettlementItem,
        resolved_builds: Sequence[ResolvedBuild],  # noqa: ARG002
    ) -> str | None:
        """Return why the item's authorization can never be used again; None while it can."""

        async def answer(rpc: ChainRpc) -> str | None:
            evidence = self._create_evidence(rpc)
            reason = await evidence.find_unpayable_reason(item.option)
            if reason is None or self.agreement == 1:
                return reason
            # the caller searches for the event too, but a single node may hide it
            events = await evidence.list_settlement_events(
                [self._terms.get_reference(item.option)], item.from_block
            )
            return (
                None
                if any(self._terms.is_proven(item.option, event) for event in events)
                else reason
            )

        reason = await self._connection.quorum.read_unanimous(answer)
        return reason and reason + await self._refusals.format_failure_reason(item.option)

    def list_observed_heads(self) -> Sequence[ObservedHead]:
        """Return when heads were first seen, a sample of them, for the next process."""
        return self.finality.list_observed_heads()

    async def restore_observed_heads(self, heads: Sequence[ObservedHead]) -> None:
        """Restore when an earlier process saw heads that are still part of the chain.

        The quorum must confirm that of each head.
        """

        async def is_canonical(head: ObservedHead) -> bool:
            async def answer(rpc: ChainRpc) -> bool | None:
                reported_hash = await self._create_evidence(rpc).find_block_hash(head.number)
                return True if reported_hash == head.hash else None

            return await self._connection.quorum.read_unanimous(answer) is not None

        verdicts = await asyncio.gather(*map(is_canonical, heads))
        stored_heads = [head for head, is_kept in zip(heads, verdicts, strict=True) if is_kept]
        self.finality.restore_observed_heads(stored_heads)

    def is_deep(self, event: SettlementEvent, head: int) -> bool:
        """Return whether a payment's block, below a head, is final for its amount."""
        after_s = self._chain.final_after(event.token, event.value)
        return event.block_number <= self.finality.get_final_block(head, after_s)

    async def is_replaced(self, number: int, block_hash: str) -> bool:
        """Return True if the quorum reports another block in its place."""
        if self.agreement == 1:
            return True

        async def other(rpc: ChainRpc) -> bool | None:
            reported_hash = await self._create_evidence(rpc).find_block_hash(number)
            return None if reported_hash in {None, block_hash} else True

        return await self._connection.quorum.read_unanimous(other) is not None

    async def read_any(self, ask: Callable[[EvmEvidenceReader], Awaitable[T]]) -> T:
        """Return what nodes prove; skip a node whose answer is unusable."""
        rpc = self._connection.rpc

        async def answer(this_rpc: ChainRpc) -> T:
            return await ask(self.evidence if this_rpc is rpc else self._create_evidence(this_rpc))

        return await rpc.ask_together_or_each(answer)

    def _create_evidence(self, rpc: ChainRpc) -> EvmEvidenceReader:
        return EvmEvidenceReader(EvmNode(rpc), self._chain, self._senders, self.finality)
