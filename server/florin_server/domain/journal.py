"""What Florin writes down before and after it touches a chain."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from florin_server.domain.held import HeldMoney
from florin_server.domain.payment import Confirmation, FailureCode, Option, Payment, Status


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


@dataclass(frozen=True, slots=True)
class ChainTx:
    """One transaction of ours as it was signed first; `bumps` are those with higher fees.

    Only bytes that are written down are ever broadcast, and at most one variant can be mined.

    `item_ids` are what it is for: the payments that it settles, those of one kind in calldata
    order, or the payouts that it makes.
    `sent_block` is the head when it was last broadcast.
    """

    id: str
    chain_id: str
    sender: str
    nonce: int
    raw: bytes
    hash: str
    item_ids: tuple[str, ...]
    state: TxState
    created_at_us: int
    sent_block: int | None = None
    block_number: int | None = None
    block_hash: str | None = None
    final_hash: str | None = None  # the variant that was mined, if it was not the first
    bumps: tuple[Variant, ...] = ()

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
    PAYER = "payer"


@dataclass(frozen=True, slots=True)
class Watched:
    """A final transaction that ended something, watched until no reorganisation can undo it."""

    tx_hash: str
    block_number: int
    block_hash: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A confirmed payment to be settled; its effect is in no block below `from_block`."""

    payment: Payment
    option: Option
    confirmation: Confirmation
    from_block: int


@dataclass(frozen=True, slots=True)
class Sent:
    """What a wallet was told to send by itself, since the block `head`."""

    payment: Payment
    option: Option
    reference: str
    head: int


@dataclass(frozen=True, slots=True)
class Posting:
    """One transfer of a journal entry, in minor units of `asset` (CAIP-19), always above zero.

    Accounts are `<kind>:<rest>`, kind one of wallet, merchant, held, expense, income,
    external.
    """

    debit: str
    credit: str
    asset: str
    amount: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The proven end of a payment: succeeded with its effect, or failed for good.

    With `held` it is paid and does not end: its payer is blocked, and the money is held.
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
    held: HeldMoney | None = None


@dataclass(frozen=True, slots=True)
class TxEnd:
    """What became of a transaction of ours; `costs` are booked once."""

    tx_id: str
    state: TxState  # FINAL or REPLACED
    block_number: int | None = None
    block_hash: str | None = None
    costs: tuple[Posting, ...] = ()
    final_hash: str | None = None  # the variant that was mined, if it was not the first
