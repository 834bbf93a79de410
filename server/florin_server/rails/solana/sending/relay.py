"""Co-signing what buyers signed, and handing it to the cluster."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from solders.transaction import VersionedTransaction

from florin_server.domain.errors import FlorinError
from florin_server.domain.settlement.chain_txs import Accepted, PayerKind, Share
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.solana.paying.check import Submission, highest_fee, submission
from florin_server.rails.solana.paying.verify import RELAYER_LAMPORTS_MIN, SolanaVerifier
from florin_server.rails.solana.reading.evidence import Landing
from florin_server.rails.solana.reading.node import FINALIZED, Node, number, valued
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import RailUnavailable, Shortage, Signed

_LANDINGS_KEPT = 1024


class SolanaRelay:
    """Implements the Relay protocol: each payment is a transaction of its own."""

    def __init__(
        self, node: Node, chain: SolanaChain, signer: SolanaSigner, verifier: SolanaVerifier
    ) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer
        self._verifier = verifier
        self._co_signed = lru_cache(maxsize=_LANDINGS_KEPT)(self._co_sign)

    async def simulate(
        self,
        items: Sequence[Accepted],
        sender: str | None = None,  # noqa: ARG002
    ) -> list[bool]:
        """Tells for each item whether it would settle if submitted now."""
        return await asyncio.gather(*(self._would_settle(item) for item in items))

    async def sign(
        self,
        sender: str,  # noqa: ARG002
        nonce: int,  # noqa: ARG002
        items: Sequence[Accepted],
    ) -> Signed:
        """Co-signs the one item's transaction; equal items give equal bytes."""
        (item,) = items
        found = submission(item.confirmation.outputs)
        signed = self._signer.co_sign(found.message, found.signature)
        return replace(signed, shares=(self.share(item),))

    def share(self, item: Accepted) -> Share:
        """Return the fee of an item's transaction in lamports, charged even for a failure."""
        return Share(PayerKind.KEY, highest_fee(submission(item.confirmation.outputs).message))

    async def broadcast(self, raw: bytes) -> None:
        """Hands a transaction to the chain; one that it already knows is fine."""
        config = {"encoding": "base64", "skipPreflight": True}
        try:
            await self._node.rpc.call("sendTransaction", base64.b64encode(raw).decode(), config)
        except RpcError as refusal:
            # nodes have many words for "I have it": only having it counts
            signature = VersionedTransaction.from_bytes(raw).signatures[0]
            if not await self.knows(str(signature)):
                raise RailUnavailable(f"{self._chain.name}: {refusal}") from refusal

    async def knows(self, tx_hash: str) -> bool:
        """True if the transaction has landed, however deep."""
        return tx_hash in await self._node.statuses([tx_hash])

    async def shortages(self) -> tuple[Shortage, ...]:
        """What the relayer lacks to pay for the next transactions, in a sentence; one read."""
        relayer = self._signer.address
        (answer,) = await self._node.batch([("getBalance", (relayer, {"commitment": FINALIZED}))])
        if number(valued(answer)) >= RELAYER_LAMPORTS_MIN:
            return ()
        # confirms are refused below it, too
        text = f"{self._chain.name}: {relayer} has too little coin to pay for fees and rent"
        return (Shortage(text, is_empty=True),)

    def landing_of(self, item: Accepted) -> Landing:
        """The transaction that settles an item, as it is co-signed."""
        found, tx_hash = self._co_signed(item.confirmation.outputs)
        return Landing(item.option, found, tx_hash)

    async def _would_settle(self, item: Accepted) -> bool:
        try:
            await self._verifier.judge(item.option, submission(item.confirmation.outputs))
        except FlorinError:
            return False
        return True

    def _co_sign(self, outputs: tuple[str, ...]) -> tuple[Submission, str]:
        found = submission(outputs)
        return found, self._signer.co_sign(found.message, found.signature).hash
