"""Facts that Florin stores before and after it acts on a chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from florin_server.domain.payments.payment import (
    Confirmation,
    FailureCode,
    Payment,
    PaymentOption,
    PaymentStatus,
)
from florin_server.domain.payouts.held_money import HeldMoney


class TxState(StrEnum):
    """The state of a transaction of Florin. `signed` is committed before the first broadcast."""

    SIGNED = "signed"
    SENT = "sent"
    FINAL = "final"
    REPLACED = "replaced"  # its nonce was provably used by another transaction


@dataclass(frozen=True, slots=True)
class TransactionVariant:
    """A signed transaction, and the hash that it is known by."""

    raw: bytes
    hash: str


class PayerKind(StrEnum):
    """The kind of account that pays, which decides how much gas a settlement can take."""

    KEY = "key"  # the payer's key signed, and no other code runs
    CODE = "code"  # the payer's own code decides
    UNBORN = "unborn"  # its code decides too, once the settlement has created it


@dataclass(frozen=True, slots=True)
class GasShare:
    """The most gas that one payment can use of its transaction; on Solana its fee in lamports."""

    kind: PayerKind
    gas: int


@dataclass(frozen=True, slots=True)
class ChainTx:
    """One transaction of Florin as it was signed first; `bumps` are those with higher fees.

    Only stored bytes are ever broadcast, and at most one variant can be mined.

    It settles payments, those of one kind in calldata order, or makes payouts, or does neither.
    `gas_shares` are those of the payments, in the same order. `sent_block` is the head when it was
    last broadcast. `since_block` existed when it was signed, so that no older block can contain
    it; None where it does not matter.
    """

    id: str
    chain_id: str
    sender: str
    nonce: int
    raw: bytes
    hash: str
    state: TxState
    created_at_us: int
    payment_ids: tuple[str, ...] = ()
    payout_ids: tuple[str, ...] = ()
    sent_block: int | None = None
    block_number: int | None = None
    block_hash: str | None = None
    final_hash: str | None = None  # the mined variant, if it was not the first
    bumps: tuple[TransactionVariant, ...] = ()
    since_block: int | None = None
    gas_shares: tuple[GasShare, ...] = ()

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Return the ids of its payments or payouts."""
        return self.payment_ids or self.payout_ids

    @property
    def variants(self) -> tuple[TransactionVariant, ...]:
        """Return all variants that can be mined, the newest last."""
        return (TransactionVariant(self.raw, self.hash), *self.bumps)

    @property
    def hashes(self) -> tuple[str, ...]:
        """Return the hashes of all variants."""
        return tuple(variant.hash for variant in self.variants)


class ReorgWatcher(StrEnum):
    """The component that reverts what a final transaction ended, if a reorganization removes it."""

    SETTLER = "settler"
    PAYOUTS = "payer"  # the stored word


@dataclass(frozen=True, slots=True)
class WatchedTransaction:
    """A final transaction that ended something, watched until no reorganization can remove it."""

    tx_hash: str
    block_number: int
    block_hash: str


@dataclass(frozen=True, slots=True)
class SettlementItem:
    """A confirmed payment to be settled; its effect is in no block below `from_block`.

    `app` is the wallet app or the key that confirmed it, empty if the chain did. `failures` counts
    the final transactions that contained it without paying it; an item that is `isolated` shares no
    transaction. `payer_kind` is its payer's kind at the latest check, None before a check.
    """

    payment: Payment
    option: PaymentOption
    confirmation: Confirmation
    from_block: int
    app: str = ""
    failures: int = 0
    isolated: bool = False
    payer_kind: PayerKind | None = None

    def extend_to_offer(self, reorg_depth: int) -> SettlementItem:
        """Return the item with every block that can contain its effect.

        Another sender may have settled it before its confirm, unseen by a node that lagged behind.
        """
        first = self.option.first_block(reorg_depth, self.from_block)
        return replace(self, from_block=min(first, self.from_block))


@dataclass(frozen=True, slots=True)
class LedgerPosting:
    """One transfer of a journal, in minor units of `asset` (CAIP-19), always above zero.

    Both accounts are of `domain/ledger/accounts`.
    """

    debit: str
    credit: str
    asset: str
    amount: int


@dataclass(frozen=True, slots=True)
class PaymentOutcome:
    """The proven end of a payment: succeeded with its effect, or failed finally.

    With `held_money` it is paid and does not end: its payer is blocked, and the money is held.
    `position` is the event's within the block, or the transaction, of `watched_transaction`.
    """

    payment_id: str
    status: PaymentStatus  # SUCCEEDED or FAILED; PROCESSING with `held_money`
    tx_hash: str | None = None
    option_unit: str | None = None
    option_value: int | None = None
    settled_value: int | None = None
    failure_code: FailureCode | None = None
    failure_detail: str | None = None
    postings: tuple[LedgerPosting, ...] = ()
    watched_transaction: WatchedTransaction | None = None
    position: int | None = None
    held_money: HeldMoney | None = None


class GasSpendingKind(StrEnum):
    """The purpose of gas that counts towards a budget."""

    FAILED = "failed"  # a payment that was not paid
    OPENED = "opened"  # a successful payment, whose payer's account it created


@dataclass(frozen=True, slots=True)
class GasSpending:
    """Gas of one final transaction that a budget counts, and its cost in the coin's minor units.

    `payment_id` and `payer` (CAIP-10) are empty for a transaction of several payments that reverted
    as a whole, which is no payer's fault.
    """

    payment_id: str
    payer: str
    app: str
    kind: GasSpendingKind
    gas: int
    cost: int


@dataclass(frozen=True, slots=True)
class TransactionOutcome:
    """The outcome of a transaction of Florin.

    `cost_postings` and `gas_spending` are recorded once.
    """

    tx_id: str
    state: TxState  # FINAL or REPLACED
    block_number: int | None = None
    block_hash: str | None = None
    cost_postings: tuple[LedgerPosting, ...] = ()
    final_hash: str | None = None  # the mined variant, if it was not the first
    gas_spending: tuple[GasSpending, ...] = ()
