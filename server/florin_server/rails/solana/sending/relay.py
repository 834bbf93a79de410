"""Buyers' signed transactions, co-signed and sent to the cluster."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from solders.transaction import VersionedTransaction

from florin_server.domain.errors import ApiError
from florin_server.domain.settlement.chain_txs import GasShare, PayerKind, SettlementItem
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.solana.paying.check import (
    PayerSignedMessage,
    compute_highest_fee,
    parse_submission,
)
from florin_server.rails.solana.paying.verify import RELAYER_LAMPORTS_MIN, SolanaVerifier
from florin_server.rails.solana.reading.evidence import SettlementTransaction
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    parse_number,
    parse_value,
)
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import GasShortage, RailUnavailable, SignedTransaction

_TRANSACTIONS_CACHED = 1024


class SolanaRelay:
    """Implement the SettlementRelay protocol: each payment is a separate transaction."""

    def __init__(
        self,
        node: SolanaNode,
        chain: SolanaChainSettings,
        signer: SolanaSigner,
        verifier: SolanaVerifier,
    ) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer
        self._verifier = verifier
        self._co_sign_cached = lru_cache(maxsize=_TRANSACTIONS_CACHED)(self._co_sign)

    async def simulate(
        self,
        items: Sequence[SettlementItem],
        sender: str | None = None,  # noqa: ARG002
    ) -> list[bool]:
        """Return for each item whether it would settle if submitted now."""
        return await asyncio.gather(*(self._is_settleable(item) for item in items))

    async def sign(
        self,
        sender: str,  # noqa: ARG002
        nonce: int,  # noqa: ARG002
        items: Sequence[SettlementItem],
    ) -> SignedTransaction:
        """Co-sign the single item's transaction; equal items give equal bytes."""
        (item,) = items
        submission = parse_submission(item.confirmation.outputs)
        signed = self._signer.co_sign(submission.message, submission.signature)
        return replace(signed, shares=(self.get_gas_share(item),))

    def get_gas_share(self, item: SettlementItem) -> GasShare:
        """Return the fee of an item's transaction in lamports, charged even for a failure."""
        return GasShare(
            PayerKind.KEY, compute_highest_fee(parse_submission(item.confirmation.outputs).message)
        )

    async def broadcast(self, raw: bytes) -> None:
        """Send a transaction to the chain; succeed if the chain already has it."""
        config = {"encoding": "base64", "skipPreflight": True}
        try:
            await self._node.rpc.call("sendTransaction", base64.b64encode(raw).decode(), config)
        except RpcError as refusal:
            # nodes report a known transaction in many ways, so it is looked up
            signature = VersionedTransaction.from_bytes(raw).signatures[0]
            if not await self.has_transaction(str(signature)):
                raise RailUnavailable(f"{self._chain.name}: {refusal}") from refusal

    async def has_transaction(self, tx_hash: str) -> bool:
        """Return True if the transaction has landed, at any depth."""
        return tx_hash in await self._node.list_statuses([tx_hash])

    async def list_shortages(self) -> tuple[GasShortage, ...]:
        """Return what the relayer lacks for the next transactions, in a sentence; one read."""
        relayer = self._signer.address
        (answer,) = await self._node.batch([("getBalance", (relayer, {"commitment": FINALIZED}))])
        if parse_number(parse_value(answer)) >= RELAYER_LAMPORTS_MIN:
            return ()
        # confirms are refused below it, too
        text = f"{self._chain.name}: {relayer} has too little coin to pay for fees and rent"
        return (GasShortage(text, is_empty=True),)

    def get_settlement_transaction(self, item: SettlementItem) -> SettlementTransaction:
        """Return the transaction that settles an item, co-signed."""
        submission, tx_hash = self._co_sign_cached(item.confirmation.outputs)
        return SettlementTransaction(item.option, submission, tx_hash)

    async def _is_settleable(self, item: SettlementItem) -> bool:
        try:
            await self._verifier.require_payable(
                item.option, parse_submission(item.confirmation.outputs)
            )
        except ApiError:
            return False
        return True

    def _co_sign(self, outputs: tuple[str, ...]) -> tuple[PayerSignedMessage, str]:
        submission = parse_submission(outputs)
        return submission, self._signer.co_sign(submission.message, submission.signature).hash
