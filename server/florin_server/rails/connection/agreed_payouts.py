"""Payouts whose outcome a quorum must confirm, as a second transfer would be lost money."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.rails.connection.endpoints import FailoverRpc
from florin_server.rails.connection.jsonrpc import ChainRpc
from florin_server.rails.connection.quorum_reader import QuorumReader
from florin_server.rails.roles import TreasuryPayouts
from florin_server.rails.types import SignedTransaction, TransferEffect, TreasuryTransfer


class QuorumPayouts:
    """Implement the TreasuryPayouts protocol with payouts of each endpoint."""

    def __init__(
        self,
        create_payouts: Callable[[ChainRpc], TreasuryPayouts],
        endpoints: FailoverRpc,
        quorum: QuorumReader,
    ) -> None:
        self._create_payouts = create_payouts
        self._preferred = create_payouts(endpoints)
        self._quorum = quorum

    @property
    def sender(self) -> str:
        """Return the address of the signing key."""
        return self._preferred.sender

    @property
    def gas_payer(self) -> str:
        """Return the address that pays for the transactions."""
        return self._preferred.gas_payer

    @property
    def problem(self) -> str:
        """Return why no payout is possible at all; empty if payouts are possible."""
        return self._preferred.problem

    async def check_transfer(
        self, transfer: TreasuryTransfer, pending_transfers: Sequence[TreasuryTransfer]
    ) -> str | None:
        """Return why a transfer would fail if it were sent now; None if it would succeed."""
        return await self._preferred.check_transfer(transfer, pending_transfers)

    async def sign(self, nonce: int, transfer: TreasuryTransfer) -> SignedTransaction:
        """Sign the single transaction that makes a transfer."""
        return await self._preferred.sign(nonce, transfer)

    async def read_effect(
        self, tx: ChainTx, tx_hash: str, transfer: TreasuryTransfer
    ) -> TransferEffect:
        """Return what a final transaction moved, once the quorum agrees on it."""
        return await self._quorum.read_agreed(
            lambda rpc: self._create_payouts(rpc).read_effect(tx, tx_hash, transfer),
            f"what {tx_hash} moved",
        )

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """Return True if the whole quorum confirms that no block can include the transaction."""

        async def answer(rpc: ChainRpc) -> bool | None:
            return await self._create_payouts(rpc).cannot_be_mined(tx, lapses_at) or None

        return await self._quorum.read_unanimous(answer) is not None
