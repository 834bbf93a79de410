"""The roles of a chain for the service, each with the methods its users need.

Every coroutine can raise RailUnavailable, which is never a negative answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.node_hours import NodeActivity
from florin_server.domain.payments.payment import (
    FreeNonce,
    Payment,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    PayerKind,
    SettlementItem,
)
from florin_server.rails.option_offer import OptionOffer, OptionOutline
from florin_server.rails.types import (
    AddressMention,
    Asset,
    BlockView,
    ChainHead,
    Fact,
    GasShortage,
    HeadUpdate,
    MentionQuery,
    MinedTransaction,
    NodeState,
    ObservedHead,
    OptionCommitment,
    PayableAsset,
    RequestedEvents,
    SettlementEvent,
    SignedTransaction,
    Split,
    TransferEffect,
    TreasuryMention,
    TreasuryTransaction,
    TreasuryTransfer,
)

# ---- roles of every chain


class OptionOffers(Protocol):
    """Offers for buyers."""

    async def list_payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        manual_payers: Collection[str] = (),
    ) -> list[PayableAsset]:
        """Return which accounts can pay which price from their balance; one batched read.

        Accounts in `manual_payers` send their payments themselves if they have code. An account
        that may be able to sign appears twice for an asset, the signature first.
        """

    async def check_receivable(
        self,
        asset: Asset,
        value: int,
        split: Split,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> str | None:
        """Return why the receivers of a split cannot take a value now, in a sentence; else None.

        `openable_accounts` are places that a payment can open for its receivers.
        """

    def outline_option(self, offer: OptionOffer) -> OptionOutline:
        """Return the id and the duration of the option that `build_option` builds, at less cost."""

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build an option that expires with its quote; `now_us` changes neither id nor actions."""

    async def resolve_build(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        now_us: int,
        free_nonce: FreeNonce | None = None,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """Resolve the option's build; return None if the newest issued build is still valid.

        `free_nonce` is a durable nonce that only this build can use. `openable_accounts` are the
        only places that it can open.

        `resolved_builds` lists the builds issued for the option before, the newest first. Every
        build has actions of the same kinds, at least one. Raise ReceiverUnavailable if a receiver
        cannot take the payment.
        """


class TermsReader(Protocol):
    """The terms of an option, read without the chain."""

    def get_reference(self, option: PaymentOption) -> str:
        """Return the reference that the option's settlement event carries."""

    def get_split(self, option: PaymentOption) -> Split:
        """Return the receivers of the option's money, as offered."""

    def get_commitment(self, option: PaymentOption) -> OptionCommitment:
        """Return the inputs of the option's id, so that others can recompute it."""

    def find_last_second(self, option: PaymentOption) -> int | None:
        """Return the last time (Unix seconds) at which the option can be paid; None if unlimited.

        If the chain does not enforce it, Florin sends nothing later.
        """

    def is_proven(self, option: PaymentOption, event: SettlementEvent) -> bool:
        """Return True if the event matches the offer: money, payer, receivers, method and end.

        Anyone can call the settlement contract with a reference that they saw and their own token;
        only the whole event is proof.
        """


class OutputVerifier(Protocol):
    """The verification that a wallet's outputs pay their option."""

    def is_plausible(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> bool | None:
        """Return whether the outputs can pay the option, as far as known without the chain.

        True if the payer's own key signed what was issued, False if they can never pay it, None if
        only the chain can decide.
        """

    async def verify(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> PayerKind:
        """Prove that the outputs (JSON texts) pay the option if submitted now.

        Return the payer's kind.

        They can answer any unexpired build of the option, the newest first. Raise
        ApiError(invalid_params) with details.reason signature_mismatch, transaction_mismatch,
        unreadable_output, insufficient_funds, token_refused or gas_limit.
        """


class SettlementRelay(Protocol):
    """Transactions of ours that settle accepted payments, and their broadcast."""

    async def simulate(
        self, items: Sequence[SettlementItem], sender: str | None = None
    ) -> list[bool]:
        """Return for each item whether it would settle if submitted now, all in one transaction.

        The dry run matches the transaction: sent by `sender`, at current fees, in the next block.
        """

    def get_gas_share(self, item: SettlementItem) -> GasShare:
        """Return the most gas of a transaction that an item can use in its current state.

        On chains without gas it is the highest fee, in minor units of the coin.
        """

    async def sign(
        self, sender: str, nonce: int, items: Sequence[SettlementItem]
    ) -> SignedTransaction:
        """Sign, with a sender's key, the single transaction that settles the items."""

    async def broadcast(self, raw: bytes) -> None:
        """Send a transaction to the chain; succeed if the chain already has it.

        Raise RailUnavailable if the outcome is unknown or the chain refused it.
        """

    async def has_transaction(self, tx_hash: str) -> bool:
        """Return True if the chain or its pool has the transaction now."""

    async def list_shortages(self) -> tuple[GasShortage, ...]:
        """Return which keys are running out of the coin that pays for gas."""


class ChainObserver(Protocol):
    """The chain's evidence."""

    @property
    def agreement(self) -> int:
        """Return how many nodes must confirm what ends a payment."""

    async def get_head(self) -> ChainHead:
        """Return the newest block, or the newest final block where single blocks are not read."""

    async def find_mined(self, tx_hashes: Sequence[str]) -> dict[str, MinedTransaction]:
        """Return which of our transactions are in a block.

        Absence proves nothing; one batched read.

        Only final transactions count where single blocks are not read.
        """

    async def find_settlement_events(
        self, items: Sequence[SettlementItem]
    ) -> list[SettlementEvent]:
        """Return settlement events of the items, by any submitter."""

    async def confirm_facts(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Return for each fact whether the quorum confirms it at final depth; one read per node.

        True if it agrees, False if nodes differ; a missing fact may be confirmed later. It never
        raises RailUnavailable: nodes that do not answer do not agree.
        """

    async def read_holdings(
        self, asset_accounts: Collection[tuple[str, str]], min_block: int
    ) -> dict[tuple[str, str], int]:
        """Return balances of accounts (CAIP-10) by asset (CAIP-19) at the newest final block.

        One batched read, all at one block; assets of other kinds than the chain's are left out.
        Raise RailUnavailable if the node's head is below the block `min_block`, which was already
        seen.
        """

    async def cannot_be_mined(self, tx: ChainTx, resolved_builds: Sequence[ResolvedBuild]) -> bool:
        """Return True if no block can include the transaction any more, judged at final depth.

        `resolved_builds` lists the builds of its payments. The caller must search for the
        transaction after this answer.
        """

    async def find_unpayable_reason(
        self, item: SettlementItem, resolved_builds: Sequence[ResolvedBuild]
    ) -> str | None:
        """Return why the item can never be paid again, judged at final depth; None while it can.

        `resolved_builds` lists the builds of its option. The caller must search for a settlement
        event after this answer: a used authorization is the normal sign of success, and an event
        may have been mined since an earlier search.
        """


class NodeConnections(Protocol):
    """The connections to a chain's nodes."""

    def list_states(self) -> Sequence[NodeState]:
        """Return the state of each node, in the order of preference.

        None for a node of this process.
        """

    def record_checks(self) -> None:
        """Count whether each node is in use now."""

    def take_activities(self) -> Mapping[str, NodeActivity]:
        """Return by node what was observed since the last time.

        None for a node of this process.
        """

    @property
    def calls_by_method(self) -> Mapping[str, int]:
        """Return how often each node method was called since the start, answered or not."""

    @property
    def disagreement(self) -> str:
        """Return why nodes do not agree on what ends payments; empty if they agree."""

    @property
    def stall_problem(self) -> str:
        """Return a text if no node reported a new block for as long as configured; else empty."""

    async def wait_for_block(self, waiter: str = "") -> None:
        """Return when there may be a new block, or after a pause in any case.

        Each concurrent waiter needs a name of its own.
        """


# ---- roles of some chains


class BlockReader(Protocol):
    """A reader of single blocks, on chains that can replace blocks before they are final."""

    async def find_block(self, number: int) -> BlockView | None:
        """Return a block; None if the chain does not have it (yet, or any more)."""

    async def poll_head(self, since: int) -> HeadUpdate:
        """Return the newest block and the logs' events after a known block, in two calls.

        Logs can be late: read the blocks again once they are final.
        """

    def list_observed_heads(self) -> Sequence[ObservedHead]:
        """Return when heads were first seen, for the next process: at most 16, the oldest first.

        Empty where that decides nothing.
        """

    async def restore_observed_heads(self, heads: Sequence[ObservedHead]) -> None:
        """Restore when an earlier process saw heads that are still part of the chain."""

    def is_deep(self, event: SettlementEvent, head: int) -> bool:
        """Return whether a payment's block, below a head, is final for its amount.

        Larger amounts can wait longer; the other conditions of finality are checked before.
        """

    async def is_replaced(self, number: int, block_hash: str) -> bool:
        """Return True if the quorum reports another block in its place.

        One of the nodes already reported it to the caller.
        """


class DirectSettlementReader(Protocol):
    """Payments that others can settle: the payer's wallet, or any holder of its signature."""

    def is_direct(self, option: PaymentOption) -> bool:
        """Return True if the buyer's wallet sends the transaction.

        Florin only looks for its effect.
        """

    def is_resembled(self, option: PaymentOption, event: SettlementEvent) -> bool:
        """Return True if it moved an option's money to its receivers by another method or end.

        It pays for nothing: it was sent again, or with another end than offered.
        """

    async def list_settlement_events(
        self, references: Sequence[str], from_block: int
    ) -> list[SettlementEvent]:
        """Return settlement events of the references from a block on, by any submitter."""

    async def list_settlement_events_between(self, first: int, last: int) -> list[SettlementEvent]:
        """Return all settlement events of a range of blocks, by any submitter for any receiver."""

    async def is_paid(self, option: PaymentOption) -> bool:
        """Return True if the chain records at final depth that a wallet's transaction paid it.

        That does not prove what moved, but such an option is never unpayable.
        """


class TransactionRequests(Protocol):
    """Transactions that any wallet fetches by a link, signs and sends itself (Solana Pay).

    A wallet can change everything about them before it signs, so only the chain says what was paid.
    """

    @property
    def method(self) -> str:
        """Return the method of options whose transaction is fetched this way."""

    @property
    def page_size(self) -> int:
        """Return the most mentions of one answer; a shorter answer is complete."""

    def get_address(self, payment: Payment) -> str:
        """Return the address that all transactions of a payment name, by which they are found."""

    async def build_transaction(self, payment: Payment, option: PaymentOption) -> str:
        """Return the unsigned transaction that pays an option, in the form that wallets read.

        Raise ReceiverUnavailable if a receiver cannot take the payment.
        """

    async def list_mentions(
        self, queries: Sequence[MentionQuery]
    ) -> list[list[AddressMention] | None]:
        """Return pages of final transactions, the newest first; one batched read.

        A page is None if only other pages were returned; RailUnavailable if none was.
        """

    async def find_events(self, candidates: Sequence[tuple[str, PaymentOption]]) -> RequestedEvents:
        """Return the settlement events of transactions that pay exactly their option."""


class AccountNonces(Protocol):
    """Nonces of senders, which order their transactions in blocks."""

    async def get_next_nonce(self, sender: str) -> int:
        """Return a sender's next nonce on the chain, pending transactions included."""

    async def is_nonce_used(self, sender: str, nonce: int) -> bool:
        """Return True if a transaction with a sender's nonce is final."""

    async def find_transfer(self, sender: str, nonce: int) -> TreasuryTransaction | None:
        """Return a sender's transaction in a block with a nonce; None if it cannot be found.

        A node without old states cannot find it. The transaction's bytes are checked against its
        hash, and its signature against the sender's address.
        """

    async def sign_noop(self, sender: str, nonce: int) -> SignedTransaction:
        """Sign, with a sender's or the treasury's key, a transaction that only uses a nonce."""

    async def bump_fee(self, tx: ChainTx) -> SignedTransaction:
        """Sign a transaction again, with its nonce, for a higher fee.

        Raise RailUnavailable also if the limits allow no higher fee.
        """


class TreasuryHistory(Protocol):
    """The transactions that the treasury's key signed, on chains without nonces."""

    async def list_mentions(self, signature: str) -> list[TreasuryMention]:
        """Return the final transactions that mention the treasury, the newest first.

        They follow the given transaction, or are all if that is empty; only as many as a node
        returns at once.
        """

    async def find_transaction(self, signature: str) -> SignedTransaction | None:
        """Return the transaction with a signature; None if the treasury did not sign it."""


class GasPlanner(Protocol):
    """Gas that is paid for computation, and shared by the payments of one transaction."""

    def split_into_batches(self, items: Sequence[SettlementItem]) -> list[Sequence[SettlementItem]]:
        """Split items, in their current state, into the batches of one transaction each."""

    async def refresh_payers(self, items: Sequence[SettlementItem]) -> list[SettlementItem]:
        """Return the items with the current kinds of their payers; one batched read.

        An account may have gained or lost code since its payment was confirmed.
        """

    async def is_short_of_gas(self, item: SettlementItem, gas_share: GasShare) -> bool:
        """Return whether an item failed because Florin gave it too little gas, not by its payer."""


class TreasuryPayouts(Protocol):
    """Transfers out of the treasury of one chain, signed by its own key."""

    @property
    def sender(self) -> str:
        """Return the key's address, in lower case where case does not count."""

    @property
    def gas_payer(self) -> str:
        """Return the address that pays for its transactions; the key's own on most chains."""

    @property
    def problem(self) -> str:
        """Return why no payout is possible at all; empty if payouts are possible."""

    async def check_transfer(
        self, transfer: TreasuryTransfer, pending_transfers: Sequence[TreasuryTransfer]
    ) -> str | None:
        """Return why a transfer would fail if it were sent now, in a sentence; else None.

        `pending_transfers` are the transfers on their way, whose money is already spent.
        """

    async def sign(self, nonce: int, transfer: TreasuryTransfer) -> SignedTransaction:
        """Sign the single transaction that makes a transfer."""

    async def read_effect(
        self, tx: ChainTx, tx_hash: str, transfer: TreasuryTransfer
    ) -> TransferEffect:
        """Return what a final transaction moved; `tx_hash` is the variant that was mined."""

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """Return True if no block can include the transaction any more, judged at final depth.

        The caller must search for the transaction after this answer.
        """


class Faucet(Protocol):
    """Test money, on a chain whose money is worth nothing.

    Gifts are limited by account, call and day. A faucet that gives nothing raises nothing.
    """

    async def give_usual(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Give accounts (CAIP-10) the usual gift, at least of the assets that have prices."""

    async def fill_accounts(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Fill accounts up to prices (minor units by CAIP-19), which may exceed the usual gift."""
