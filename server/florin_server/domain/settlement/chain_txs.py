"""What Florin writes down before and after it touches a chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from florin_server.domain.payments.payment import Confirmation, FailureCode, Option, Payment, Status
from florin_server.domain.payouts.held_money import HeldMoney


class TxState(StrEnum):
    """Where a transaction of ours stands. `signed` is committed before the first broadcast."""

    SIGNED = "signed"
    SENT = "sent"
    FINAL = "final"
    REPLACED = "replaced"  # its nonce was provably used by another transaction


@dataclass(frozen=True, slots=True)
class Variant:
    """A signed transaction, and the hash that it is known by."""

    raw: bytes
    hash: str


class PayerKind(StrEnum):
    """Who answers for a payment when it is settled, and so how much gas that may take."""

    KEY = "key"  # the payer's key signed, and nothing else runs
    CODE = "code"  # the payer's own code is asked
    UNBORN = "unborn"  # so is it, once the settlement has created it


@dataclass(frozen=True, slots=True)
class Share:
    """The most gas that one payment may use of its transaction; on Solana its fee in lamports."""

    kind: PayerKind
    gas: int


@dataclass(frozen=True, slots=True)
class ChainTx:
    """One transaction of ours as it was signed first; `bumps` are those with higher fees.

    Only bytes that are written down are ever broadcast, and at most one variant can be mined.

    It settles payments, those of one kind in calldata order, or makes payouts, or does neither.
    `shares` are those of the payments, in the same order.
    `sent_block` is the head when it was last broadcast. `since_block` was there when it was signed,
    so that no older block can hold it; None where nobody has to know.
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
    final_hash: str | None = None  # the variant that was mined, if it was not the first
    bumps: tuple[Variant, ...] = ()
    since_block: int | None = None
    shares: tuple[Share, ...] = ()

    @property
    def item_ids(self) -> tuple[str, ...]:
        """What it is for: payments or payouts."""
        return self.payment_ids or self.payout_ids

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All that may be mined, the newest last."""
        return (Variant(self.raw, self.hash), *self.bumps)

    @property
    def hashes(self) -> tuple[str, ...]:
        """The hashes of all variants."""
        return tuple(one.hash for one in self.variants)


class Watcher(StrEnum):
    """Who takes back what a final transaction ended, if that is undone."""

    SETTLER = "settler"
    PAYOUTS = "payer"  # the word that is stored


@dataclass(frozen=True, slots=True)
class Watched:
    """A final transaction that ended something, watched until no reorganisation can undo it."""

    tx_hash: str
    block_number: int
    block_hash: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A confirmed payment to be settled; its effect is in no block below `from_block`.

    `app` is the wallet app or the key that confirmed it, empty if the chain did. `failures` counts
    the final transactions of ours that carried it without paying it; one that is `alone` shares no
    transaction with others. `kind` is what its payer was at the last look, None if nobody looked.
    """

    payment: Payment
    option: Option
    confirmation: Confirmation
    from_block: int
    app: str = ""
    failures: int = 0
    alone: bool = False
    kind: PayerKind | None = None

    def since_offered(self, reorg_depth: int) -> Accepted:
        """The same, with every block that may hold its effect.

        Others may have settled it before its confirm, unseen by a node that lagged behind.
        """
        first = self.option.first_block(reorg_depth, self.from_block)
        return replace(self, from_block=min(first, self.from_block))


@dataclass(frozen=True, slots=True)
class Posting:
    """One transfer of a journal, in minor units of `asset` (CAIP-19), always above zero.

    Both accounts are of `domain/ledger/accounts`.
    """

    debit: str
    credit: str
    asset: str
    amount: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The proven end of a payment: succeeded with its effect, or failed for good.

    With `held` it is paid and does not end: its payer is blocked, and the money is held. `position`
    is the event's within the block, or the transaction, of `at`.
    """

    payment_id: str
    status: Status  # SUCCEEDED or FAILED; PROCESSING with `held`
    tx_id: str | None = None
    option_unit: str | None = None
    option_value: int | None = None
    settled_value: int | None = None
    failure_code: FailureCode | None = None
    failure_detail: str | None = None
    postings: tuple[Posting, ...] = ()
    at: Watched | None = None
    position: int | None = None
    held: HeldMoney | None = None


class SpentKind(StrEnum):
    """What gas was spent on that a budget counts."""

    FAILED = "failed"  # a payment that was not paid
    OPENED = "opened"  # a payment that was paid, whose payer's account it created


@dataclass(frozen=True, slots=True)
class Spent:
    """Gas of one final transaction that a budget counts, and its cost in the coin's minor units.

    `payment_id` and `payer` (CAIP-10) are empty for a transaction of several payments that was
    reverted as a whole: it is nobody's fault.
    """

    payment_id: str
    payer: str
    app: str
    kind: SpentKind
    gas: int
    cost: int


@dataclass(frozen=True, slots=True)
class TxEnd:
    """What became of a transaction of ours; `costs` and `spent` are booked once."""

    tx_id: str
    state: TxState  # FINAL or REPLACED
    block_number: int | None = None
    block_hash: str | None = None
    costs: tuple[Posting, ...] = ()
    final_hash: str | None = None  # the variant that was mined, if it was not the first
    spent: tuple[Spent, ...] = ()
