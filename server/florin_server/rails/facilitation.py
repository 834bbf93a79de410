"""Transfers that payers signed for anyone to send, as facilitators of x402 do (scheme `exact`).

The payer's signature fixes asset, amount and receiver. The sender pays for gas, and can neither
redirect the money nor keep it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.domain.x402.messages import X402Payment, X402Requirements
from florin_server.rails.types import SignedTransaction


@dataclass(frozen=True, slots=True)
class FacilitatedTransfer:
    """A transfer that its payer signed, as it is stored.

    `key` identifies the payer's signature: on chain it can move money once. `asset` is CAIP-19, the
    accounts are CAIP-10. `content` belongs to the rail, JSON values only. `gas` is the most that it
    can use, in units of gas, or in lamports. It is not sent from `expires_at` on, in Unix seconds;
    `head` is a block before any that can include it. `note` is what the payer wrote beside it, on
    chains with notes; it is not stored.
    """

    key: str
    chain_id: str
    asset: str
    payer: str
    pay_to: str
    value: int
    content: Mapping[str, object]
    gas: int
    expires_at: int
    head: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class FacilitatedOutcome:
    """The effect of a final transaction: the hash of the one that moved the money, or none.

    `gas_used` is what ours used; None if no node reports it.
    """

    paid_by: str | None
    gas_used: int | None


class TransferFacilitator(Protocol):
    """Checks and sends the transfers of others on one chain."""

    @property
    def signers(self) -> Sequence[str]:
        """Return the addresses that send transfers, as their chain writes them."""

    @property
    def methods(self) -> Collection[str]:
        """Return how tokens can be transferred by signature, as far as the last check saw."""

    @property
    def extra(self) -> Mapping[str, str]:
        """Return what clients need to know to sign a transfer."""

    def read_transfer(
        self, payment: X402Payment, requirements: X402Requirements, now_s: int
    ) -> FacilitatedTransfer:
        """Return a payment's transfer if it does exactly what is required, without the chain.

        One whose time is over is returned too. Raise InvalidX402Payment otherwise.
        """

    async def check(self, transfer: FacilitatedTransfer, now_s: int) -> FacilitatedTransfer:
        """Dry-run a transfer; return it with the newest block.

        Raise InvalidX402Payment if it would fail, or if this is not its time.
        """

    async def sign(
        self, sender: str, nonce: int, transfer: FacilitatedTransfer
    ) -> SignedTransaction:
        """Sign, with a sender's key, the transaction that makes the transfer."""

    async def find_outcome(
        self, transfer: FacilitatedTransfer, tx_hash: str | None
    ) -> FacilitatedOutcome:
        """Return what our final transaction did, or another one that used the same signature.

        Without `tx_hash` we sent none. The quorum must agree; raise RailUnavailable while
        it does not.
        """

    async def cannot_be_mined(self, transfer: FacilitatedTransfer, tx: ChainTx) -> bool:
        """Return True if no block can include the transaction any more, judged at final depth."""
