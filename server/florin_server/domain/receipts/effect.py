"""The place on the chain where a payment was paid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaymentEffect:
    """The final transaction that paid a payment.

    `block_number` is the slot on Solana, whose final blocks have no hash here: it is empty.
    `position` is the number of the settlement's log in its block, or that of the transfer among the
    transaction's instructions; None if no node reported it.
    """

    payment_id: str
    tx_hash: str
    block_number: int
    block_hash: str
    position: int | None
