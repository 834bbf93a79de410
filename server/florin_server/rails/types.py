"""What rails tell, as plain values, and how they say that they cannot."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from florin_server.domain.errors import FlorinError
from florin_server.domain.settlement.chain_txs import Share


@dataclass(frozen=True, slots=True)
class Asset:
    """A token or coin that a rail takes. `peg` is the ISO 4217 currency that it is worth one of."""

    id: str  # CAIP-19
    chain_id: str  # CAIP-2
    address: str  # lower-case
    name: str
    symbol: str
    decimals: int
    peg: str | None
    method: str  # "eip3009", "permit2", "direct" or "solana"
    domain_name: str  # of the EIP-712 domain that payments are signed for
    domain_version: str  # empty if it has none
    network_name: str
    approve_from_zero: bool = False  # its allowances change to and from zero only
    icon_url: str | None = None
    network_icon_url: str | None = None


@dataclass(frozen=True, slots=True)
class Payable:
    """An account (CAIP-10) that holds the price of an asset (CAIP-19), and what it must do first.

    `approvals` are the allowances that it has to give, in order. `method` is how it pays if it
    cannot pay in the asset's own way.
    """

    payer: str
    asset: str
    approvals: tuple[int, ...] = ()
    method: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """Where the money of one payment goes, fixed by the buyer's signature.

    `dest` and `fee_to` are CAIP-10. `settled` tells that `dest` is the merchant's own destination
    and not the operator's treasury.
    """

    dest: str
    fee_to: str | None
    fee: int
    settled: bool


@dataclass(frozen=True, slots=True)
class Commitment:
    """What an option's id was made of, besides what every option tells.

    Accounts are CAIP-10 as they were written then; `contract` is the settlement contract, None on
    chains without one. `steps` are None if they are not known any more.
    """

    contract: str | None
    dest: str
    fee_to: str | None
    steps: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block."""

    number: int
    hash: str  # empty if the chain tells only final blocks
    time: int  # Unix seconds; 0 if the chain does not tell
    # the newest final block, -1 if there is none; None if only a count of blocks decides
    final: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SeenHead:
    """A head that was seen: its block's number, hash and Unix time, and how many seconds ago."""

    number: int
    hash: str
    time: int
    age_s: float


@dataclass(frozen=True, slots=True)
class Glance:
    """The newest block, and whether all since a known one are `quiet`: without settlement events.

    `quiet` is None if that was not asked, and False also if the node did not answer it.
    """

    head: Head
    parent_hash: str
    quiet: bool | None


@dataclass(frozen=True, slots=True)
class Paid:
    """Proof on chain that a payment's money moved: the settlement contract's event.

    Hex texts are lower-case; addresses are bare, not CAIP-10. `fee_to` means nothing where no fee
    was taken. `nonce` stands for all that was offered, the way to pay and its end included; it is
    empty on chains without such. `position` is the number of the log in its block, or of the
    transfer among the transaction's instructions. It proves nothing: nodes that count differently
    tell the same.
    """

    ref: str
    tx_hash: str
    block_number: int
    block_hash: str
    payer: str
    dest: str
    fee_to: str
    token: str
    value: int
    fee: int
    nonce: str
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction of ours in a block.

    `gas_cost` is in minor units of the rail's `native_asset`, and so is `rent`: what else its
    sender left in accounts that it opened, below zero if it got more back. `gas_used` is what
    budgets count: units of gas, or the fee itself on chains without gas. Both are None where the
    node does not report them, and nodes need not agree on them: they are bookkeeping and decide
    nothing.
    """

    tx_hash: str
    block_number: int
    block_hash: str
    success: bool
    gas_cost: int | None = field(compare=False)
    rent: int = 0
    gas_used: int | None = field(default=0, compare=False)


Fact: TypeAlias = Paid | Mined
"""What ends a payment or a transaction of ours."""


@dataclass(frozen=True, slots=True)
class BlockView:
    """What one block tells about payments: all settlement events, and all transactions from us.

    It is not `complete` where the node contradicts itself about the block: events may be missing.
    """

    number: int
    hash: str
    parent_hash: str
    time: int
    paid: tuple[Paid, ...]
    mined: tuple[Mined, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Signed:
    """A transaction that is ready to be broadcast.

    `lapses_at` is the block height after which it cannot be mined, on chains where it lapses, and
    `since_block` a block that came before any that can hold it. `opens` tells that it opens the
    place that it pays to.
    `lapses_at` is the block height after which it cannot be mined, on chains where it lapses.
    `shares` are those of the payments that it settles, in their order.
    """

    raw: bytes
    hash: str
    lapses_at: int | None = None
    since_block: int | None = None
    opens: bool = False
    shares: tuple[Share, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """Money that leaves a treasury: minor units of an asset (CAIP-19) to an account (CAIP-10).

    `ref` is told in the transaction where the chain has a place for it. `may_open` tells that the
    place that it goes to may be opened for it, where that costs something.
    """

    ref: str
    asset: str
    account: str
    value: int
    may_open: bool = False


@dataclass(frozen=True, slots=True)
class SentTransfer:
    """A transaction of a treasury that a node reported, and the plain transfer that it makes.

    `asset`, `account` and `value` are as in `Transfer`, and empty (0) if it makes no plain
    transfer. `raw` is the signed transaction, whose hash is `hash`. `is_setup` tells that it moves
    nothing, as `florin chain deploy` made it.
    """

    hash: str
    raw: bytes
    asset: str = ""
    account: str = ""
    value: int = 0
    is_setup: bool = False


@dataclass(frozen=True, slots=True)
class Noted:
    """A transaction that names the treasury; `reference` is its only memo, empty if it failed."""

    hash: str
    reference: str


class Effect(StrEnum):
    """What a final transaction moved out of the treasury."""

    EXACT = "exact"  # what it was made for, and nothing else
    NOTHING = "nothing"  # it failed
    OTHER = "other"  # it did not fail, and it is not proven what it moved


@dataclass(frozen=True, slots=True)
class NodeState:
    """How one node of a chain looks. `name` is its host, and nothing else of its address.

    `lag` is in blocks, `error_rate` the share of recent questions that it left unanswered;
    `problem` is empty while it is used.
    """

    name: str
    head: int
    lag: int
    latency_ms: float
    error_rate: float
    problem: str


class RailUnavailable(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The chain did not answer, or answered nonsense; nothing is known about what was asked."""


class NonceUnusable(FlorinError):  # noqa: N818  (a state of the world, not a mistake)
    """The payer's wallet changed a transaction so that its durable nonce counts no more."""


class NotReceivable(RailUnavailable):
    """A receiver cannot take what is to be paid, as the chain is now; the text says why."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A key that runs out of the coin that it pays with, in a sentence.

    With `is_empty` it cannot pay for one more payment.
    """

    text: str
    is_empty: bool


def is_unfunded(shortages: Collection[Shortage], senders: int) -> bool:
    """Return whether none of so many keys can pay for one more payment."""
    return sum(one.is_empty for one in shortages) >= senders
