"""Transfers that wallets make without a transaction of Florin, and that name a payment's address.

Only the merchant receives them, so they carry no fee, and nothing of them can be taken back.
Every coroutine can raise RailUnavailable, which is never a negative answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import SettlementEvent


@dataclass(frozen=True, slots=True)
class TransferCandidate:
    """A final transaction that names the address of a payment, and what it can pay."""

    tx_hash: str
    payment: Payment
    offers: tuple[PaymentOption, ...]


@dataclass(frozen=True, slots=True)
class ExactTransfer:
    """The option of a transfer's sender, and the proof that the transfer pays it."""

    option: PaymentOption
    event: SettlementEvent


@dataclass(frozen=True, slots=True)
class ObservedTransfer:
    """Money that a final transaction moved to a merchant, in minor units of an asset (CAIP-19).

    `sender` is bare, and empty if it is unknown. `exact` is None if the transfer pays nothing.
    """

    tx_hash: str
    payment_id: str
    block_number: int
    asset: str
    value: int
    sender: str
    exact: ExactTransfer | None = None


@dataclass(frozen=True, slots=True)
class ObservedTransfers:
    """The transfers in transactions, and the hashes that the node cannot return yet."""

    transfers: tuple[ObservedTransfer, ...]
    unread: frozenset[str]


class TransferRequests(Protocol):
    """Links by which a wallet transfers the whole price to the merchant (Solana Pay)."""

    @property
    def method(self) -> str:
        """Return the method of options that are paid this way."""

    def get_account(self, payment: Payment) -> str:
        """Return the CAIP-10 account that stands for the sender until a transfer is seen."""

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build the option of a link, without a sender; the payer of the offer is not used."""

    async def find_obstacle(self, option: PaymentOption) -> str | None:
        """Return why wallets would refuse to transfer to the merchant, in a sentence; else None."""

    def format_uri(self, option: PaymentOption, label: str) -> str:
        """Return the link that wallets read; `label` is the merchant's name."""

    async def find_transfers(self, candidates: Sequence[TransferCandidate]) -> ObservedTransfers:
        """Return what transactions moved to the merchants of the payments."""
