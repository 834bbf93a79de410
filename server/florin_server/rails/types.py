"""The values and errors of rails."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.errors import ApiError
from florin_server.domain.payments.deposits import Deposit
from florin_server.domain.settlement.chain_txs import GasShare

# the token of coin in settlement events
NO_TOKEN: Final = "0x" + "00" * 20
# the method of options that any sender pays at an address of their own
FORWARD_METHOD: Final = "forward"
# a wallet transfers everything to the merchant, and names an address of the payment
TRANSFER_METHOD: Final = "transfer"


@dataclass(frozen=True, slots=True)
class Asset:
    """A token or coin that a rail accepts.

    `peg` is the ISO 4217 currency of its fixed value of one.
    """

    id: str  # CAIP-19
    chain_id: str  # CAIP-2
    address: str  # lower-case
    name: str
    symbol: str
    decimals: int
    peg: str | None
    method: str  # "eip3009", "permit2", "direct" or "solana"
    domain_name: str  # of the EIP-712 domain of its payment signatures
    domain_version: str  # empty if it has none
    network_name: str
    approve_from_zero: bool = False  # its allowances change only to and from zero
    # name and version of the EIP-712 domain of its signed approvals (EIP-2612), if it takes them
    approval_domain: tuple[str, str] | None = None
    icon_url: str | None = None
    network_icon_url: str | None = None


@dataclass(frozen=True, slots=True)
class PayableAsset:
    """An account (CAIP-10) that holds the price of an asset (CAIP-19), and its missing steps.

    `approvals` are the allowances to give, in order. `method` is how it pays if it cannot use the
    asset's own method. `permit_nonce` is the token's nonce of the payer if it approves by
    signature.
    """

    payer: str
    asset: str
    approvals: tuple[int, ...] = ()
    method: str | None = None
    permit_nonce: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The receivers of one payment's money, fixed by the buyer's signature.

    `dest` and `fee_to` are CAIP-10. `settled` is true if `dest` is the merchant's own destination
    and not the operator's treasury. `owed_fee` is what the merchant owes of a value that it gets
    whole.
    """

    dest: str
    fee_to: str | None
    fee: int
    settled: bool
    owed_fee: int = 0


@dataclass(frozen=True, slots=True)
class OptionCommitment:
    """The inputs of an option's id besides the option's public fields.

    Accounts are CAIP-10 in their original spelling; `contract` is the settlement contract, None on
    chains without it. `steps` is None if the steps are no longer known.
    """

    contract: str | None
    dest: str
    fee_to: str | None
    steps: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The newest block."""

    number: int
    hash: str  # empty if the chain reports only final blocks
    time: int  # Unix seconds; 0 if the chain does not report it
    # the newest final block, -1 if none is final; None if only a count of blocks decides
    final: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ObservedHead:
    """A head that was seen: block number, hash and Unix time, and how many seconds ago."""

    number: int
    hash: str
    time: int
    age_s: float


@dataclass(frozen=True, slots=True)
class HeadUpdate:
    """The newest block, and whether the blocks since a known block have no settlement events.

    `is_quiet` is None if that was not asked, and also False if the node did not answer it.
    """

    head: ChainHead
    parent_hash: str
    is_quiet: bool | None


@dataclass(frozen=True, slots=True)
class SettlementEvent:
    """Proof on chain that a payment's money moved: the settlement contract's event.

    Hex texts are lower-case; addresses are bare, not CAIP-10. `fee_to` means nothing where no fee
    was taken. `nonce` covers all offered terms, including method and end; it is empty on chains
    without nonces. `position` is the log's number in its block, or the transfer's among the
    transaction's instructions. It proves nothing: nodes that count differently still agree. `time`
    is its block's, in Unix seconds; None where a follower reads the blocks.
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
    time: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class MentionQuery:
    """A page of an address's transactions: from before one back to another, or without bounds."""

    address: str
    before: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class AddressMention:
    """A final transaction that names an address.

    `reference` is its only note, empty if it has none or several, or if it failed. `block_number`
    is None if the node did not return it.
    """

    tx_hash: str
    reference: str
    is_failed: bool = False
    block_number: int | None = None


@dataclass(frozen=True, slots=True)
class RequestedEvents:
    """The settlement events of transactions, and the hashes that the node cannot return yet."""

    events: tuple[SettlementEvent, ...]
    unread: frozenset[str]


@dataclass(frozen=True, slots=True)
class MinedTransaction:
    """A transaction of ours in a block.

    `gas_cost` is in minor units of the rail's `native_asset`. So is `rent`: what else its sender
    left in accounts that it opened, below zero if it got more back. `gas_used` counts against
    budgets: units of gas, or the fee itself on chains without gas. `gas_cost` and `gas_used` are
    None where the node does not report them; nodes need not agree on them, as they decide nothing.
    """

    tx_hash: str
    block_number: int
    block_hash: str
    success: bool
    gas_cost: int | None = field(compare=False)
    rent: int = 0
    gas_used: int | None = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class HomeTransfer:
    """Money that the forwarder moved from a payment's address to the route's home.

    Hex texts are lower-case; addresses are bare; `token` is the zero address for the coin.
    `position` is the log's number in its block and proves nothing.
    """

    ref: str
    address: str
    token: str
    value: int
    home: str
    tx_hash: str
    block_number: int
    block_hash: str
    position: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AddressSweep:
    """The assets (CAIP-19) to send home from the address of a route."""

    route: ForwardRoute
    assets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddressActivity:
    """The money that moved to and from payments' addresses in a range of blocks, in its order.

    The range is empty if `last` is below `first`. `final` is the newest final block, -1 if none is:
    what lies above it can still change and must be read again, not stored.
    """

    first: int
    last: int
    final: int
    deposits: tuple[Deposit, ...] = ()
    payments: tuple[SettlementEvent, ...] = ()
    home_transfers: tuple[HomeTransfer, ...] = ()


ChainFact: TypeAlias = SettlementEvent | MinedTransaction
"""A fact that ends a payment or a transaction of ours."""

ConfirmableFact: TypeAlias = ChainFact | HomeTransfer | Deposit
"""A fact that decides about money, and that several nodes can have to confirm."""

Fact = TypeVar("Fact", bound=ConfirmableFact)


@dataclass(frozen=True, slots=True)
class BlockView:
    """One block's payment data: all settlement events, and all transactions from us.

    It is not `is_complete` if the node contradicts itself about the block: events may be missing.
    """

    number: int
    hash: str
    parent_hash: str
    time: int
    events: tuple[SettlementEvent, ...]
    transactions: tuple[MinedTransaction, ...]
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that is ready to broadcast.

    `lapses_at` is the block height after which it cannot be mined, on chains where it expires.
    `since_block` is a block before any that can include it. `opens_account` is true if it opens
    the place that it pays to. `shares` are the gas shares of the payments that it settles, in
    their order.
    """

    raw: bytes
    hash: str
    lapses_at: int | None = None
    since_block: int | None = None
    opens_account: bool = False
    shares: tuple[GasShare, ...] = ()


@dataclass(frozen=True, slots=True)
class TreasuryTransfer:
    """Money that leaves a treasury: minor units of an asset (CAIP-19) to an account (CAIP-10).

    `ref` goes into the transaction where the chain has a place for it. `may_open_account` is true
    if the receiver's place can be opened for it, where that costs something.
    """

    ref: str
    asset: str
    account: str
    value: int
    may_open_account: bool = False


@dataclass(frozen=True, slots=True)
class TreasuryTransaction:
    """A transaction of a treasury that a node reported, and the plain transfer that it makes.

    `asset`, `account` and `value` are as in `TreasuryTransfer`, and empty (0) if it makes no plain
    transfer. `raw` is the signed transaction, whose hash is `hash`. `is_setup` is true if it moves
    nothing, like those of `florin chain deploy`.
    """

    hash: str
    raw: bytes
    asset: str = ""
    account: str = ""
    value: int = 0
    is_setup: bool = False


@dataclass(frozen=True, slots=True)
class TreasuryMention:
    """A transaction that mentions the treasury; `reference` is its memo, empty if it failed."""

    hash: str
    reference: str


class TransferEffect(StrEnum):
    """The effect of a final transaction out of the treasury."""

    EXACT = "exact"  # it moved exactly what it was built for
    NOTHING = "nothing"  # it failed
    OTHER = "other"  # it did not fail, but what it moved is not proven


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of one node of a chain; `name` is its host without the rest of its URL.

    `lag` is in blocks, `error_rate` the share of recent requests without an answer; `problem` is
    empty while the node is used.
    """

    name: str
    head: int
    lag: int
    latency_ms: float
    error_rate: float
    problem: str


class RailUnavailable(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The chain did not answer, or answered nonsense; the answer to the question is unknown."""


class NonceUnusable(ApiError):  # noqa: N818  (a state of the world, not a mistake)
    """The payer's wallet changed a transaction so that its durable nonce no longer works."""


class ReceiverUnavailable(RailUnavailable):
    """A receiver cannot take the payment in the chain's current state; the text says why."""


@dataclass(frozen=True, slots=True)
class GasShortage:
    """A key that runs out of the coin that pays for gas, in a sentence.

    With `is_empty` it cannot pay for one more payment.
    """

    text: str
    is_empty: bool


def is_unfunded(shortages: Collection[GasShortage], senders: int) -> bool:
    """Return whether none of `senders` keys can pay for one more payment."""
    return sum(shortage.is_empty for shortage in shortages) >= senders
