"""The roles that a chain plays for the service, each with what those ask who need it.

Every coroutine may raise RailUnavailable; none of them is a negative answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import FreeNonce, Option, Payment, ResolvedBuild
from florin_server.domain.settlement.chain_txs import Accepted, ChainTx, PayerKind, Share
from florin_server.pricing.prices import Quote
from florin_server.rails.types import (
    Asset,
    BlockView,
    Commitment,
    Effect,
    Fact,
    Glance,
    Head,
    Mined,
    NodeState,
    Noted,
    Paid,
    Payable,
    SeenHead,
    SentTransfer,
    Shortage,
    Signed,
    Split,
    Transfer,
)

# ---- what every chain does


class Offers(Protocol):
    """What buyers can be offered."""

    async def payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        by_hand: Collection[str] = (),
    ) -> list[Payable]:
        """Who can pay what price: their balance covers it; one batched read.

        Those `by_hand` are to send their payments by themselves if they have code. One that may be
        able to sign is told twice for an asset, the way by signature first.
        """

    async def obstacle(
        self, asset: Asset, value: int, split: Split, openable: Collection[AssetAccount] = ()
    ) -> str | None:
        """Why the receivers of a split cannot take a value now, in a sentence; None if they can.

        `openable` are places that a payment may open for its receivers.
        """

    def offer(  # noqa: PLR0917  (one of each, none alike)
        self,
        payment: Payment,
        account: str,
        means: Payable,
        asset: Asset,
        value: int,
        split: Split,
        now_us: int,
        quote: Quote | None = None,
    ) -> Option:
        """Builds an option; equal arguments, but for `now_us`, give equal ids and actions.

        It lapses with its quote.
        """

    async def build(
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        now_us: int,
        spare: FreeNonce | None = None,
        openable: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """Resolves the option's build; None if the newest that was issued is still good.

        `spare` is a durable nonce for it, which only it may use; `openable` are the places that it
        may open, and no others.

        `issued` is what was issued for the option before, the newest first. Every issue has
        actions of the same kinds, at least one. NotReceivable if a receiver cannot take it.
        """


class Terms(Protocol):
    """What an option says; the chain is not asked."""

    def reference(self, option: Option) -> str:
        """The reference that the option's settlement event carries."""

    def split(self, option: Option) -> Split:
        """Where the option's money goes, as it was offered."""

    def commitment(self, option: Option) -> Commitment:
        """What the option's id was made of, so that others can make it again."""

    def last_second(self, option: Option) -> int | None:
        """The newest time (Unix seconds) at which the option may be paid; None if any will do.

        A chain that does not enforce it itself is sent nothing later.
        """

    def proves(self, option: Option, paid: Paid) -> bool:
        """True if the event is exactly what was offered: money, payer, receivers, way and end.

        Anybody may call the settlement contract with a reference that they have seen and a token
        of their own; only the whole event is proof.
        """


class Verifier(Protocol):
    """Whether what a wallet returned pays its option."""

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        """Whether the outputs may pay the option, as far as this can be told without the chain.

        True if the payer's own key signed what was issued, False if they can never pay it, None
        if only the chain can tell.
        """

    async def verify(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> PayerKind:
        """Proves that the outputs (JSON texts) pay the option if submitted now; tells who answers.

        They may answer any of the option's issues, the newest first, that have not lapsed. Raises
        FlorinError(invalid_params) with details.reason signature_mismatch, transaction_mismatch,
        unreadable_output, insufficient_funds, token_refused or gas_limit.
        """


class Relay(Protocol):
    """Turning accepted payments into transactions of ours, and handing them over."""

    async def simulate(self, items: Sequence[Accepted], sender: str | None = None) -> list[bool]:
        """Tells for each item whether it would settle if submitted now, all in one transaction.

        It is tried as that would run: sent by `sender`, at the fees of now, in the next block.
        """

    def share(self, item: Accepted) -> Share:
        """Return the most gas that an item may use of a transaction, as it stands.

        On chains without gas it is the highest fee, in minor units of the coin.
        """

    async def sign(self, sender: str, nonce: int, items: Sequence[Accepted]) -> Signed:
        """Signs, with a sender's key, the one transaction that settles the items."""

    async def broadcast(self, raw: bytes) -> None:
        """Hands a transaction to the chain; one that it already knows is fine.

        Raises RailUnavailable when the outcome is unknown or the chain refused it.
        """

    async def knows(self, tx_hash: str) -> bool:
        """True if the chain or its pool has the transaction now."""

    async def shortages(self) -> tuple[Shortage, ...]:
        """Tells which keys are running out of the coin that they pay with."""


class Observer(Protocol):
    """What the chain proves."""

    @property
    def agreement(self) -> int:
        """How many nodes must tell what ends a payment."""

    async def head(self) -> Head:
        """The newest block; the newest final one where blocks are not read one by one."""

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Which of our transactions are in a block, one batched read; absent ones tell nothing.

        Only final ones count where blocks are not read one by one.
        """

    async def find(self, items: Sequence[Accepted]) -> list[Paid]:
        """Settlement events of the items, whoever submitted them."""

    async def agreed(self, facts: Collection[Fact]) -> Mapping[Fact, bool]:
        """Which facts as many nodes tell as have to agree, at final depth; one read of each.

        True if they do and False if they differ; absent ones may be told later. Never raises
        RailUnavailable: nodes that do not answer do not agree.
        """

    async def holdings(
        self, places: Collection[tuple[str, str]], least: int
    ) -> dict[tuple[str, str], int]:
        """What accounts (CAIP-10) hold of assets (CAIP-19) at the newest final block.

        One batched read, all at one block; assets of another kind than the chain's are left out.
        RailUnavailable if the node's head is below the block `least`, which was seen before.
        """

    async def cannot_be_mined(self, tx: ChainTx, issued: Sequence[ResolvedBuild]) -> bool:
        """True if no block can hold the transaction any more, judged at final depth.

        `issued` is what was issued for its payments. The caller must look for the transaction
        after this answer.
        """

    async def unpayable_reason(self, item: Accepted, issued: Sequence[ResolvedBuild]) -> str | None:
        """Why the item can never be paid again, judged at final depth; None while it can.

        `issued` is what was issued for its option. The caller must look for a settlement event
        after this answer: a spent authorization is the normal sign of success, and an event looked
        for before may have been mined since.
        """


class Nodes(Protocol):
    """How the chain is reached."""

    def states(self) -> Sequence[NodeState]:
        """How each node looks, in the order of preference; none of this process."""

    @property
    def calls_by_method(self) -> Mapping[str, int]:
        """How often each method of nodes was called since the start, answered or not."""

    @property
    def disagreement(self) -> str:
        """What keeps nodes from agreeing on what ends payments; empty if they agree."""

    @property
    def stalled(self) -> str:
        """That no node has told a new block for as long as the settings bear; empty otherwise."""

    async def wait_for_block(self, waiter: str = "") -> None:
        """Returns when there may be a new block, and after a while in any case.

        Each of those who wait at the same time has a name of its own.
        """


# ---- what some chains do


class Blocks(Protocol):
    """Blocks that are read one by one, on chains that may replace what is not final."""

    async def block(self, number: int) -> BlockView | None:
        """One block; None if the chain does not have it (yet, or any more)."""

    async def glance(self, since: int) -> Glance:
        """Return the newest block and what logs tell of those after a known one, in two calls.

        The logs may be late: what is read so is to be read again when it is final.
        """

    def list_seen(self) -> Sequence[SeenHead]:
        """Return when heads were first seen, for the next process: at most 16, the oldest first.

        Empty where that decides nothing.
        """

    async def restore_seen(self, heads: Sequence[SeenHead]) -> None:
        """Use when an earlier process saw heads, of those that are part of the chain still."""

    def is_deep(self, paid: Paid, head: int) -> bool:
        """Return whether a payment's block is final for its amount, below a head.

        Larger amounts may wait longer; all else that makes a block final is looked at before.
        """

    async def replaced(self, number: int, block_hash: str) -> bool:
        """True if as many nodes as have to agree tell of another block in the place of one.

        The caller has heard of it from one of them.
        """


class DirectSettlement(Protocol):
    """Payments that others can settle: the payer's wallet, or whoever has what it signed."""

    def is_direct(self, option: Option) -> bool:
        """True if the buyer's wallet sends the transaction: its effect is only looked for."""

    def resembles(self, option: Option, paid: Paid) -> bool:
        """True if the event moved an option's money to its receivers, but in another way or time.

        It pays for nothing: it was sent again, or to another end than was offered.
        """

    async def paid(self, references: Sequence[str], from_block: int) -> list[Paid]:
        """Settlement events of the references from a block on, whoever submitted them."""

    async def paid_between(self, first: int, last: int) -> list[Paid]:
        """All settlement events of a range of blocks, whoever submitted them, for whomever."""

    async def is_paid(self, option: Option) -> bool:
        """True if the chain says at final depth that a wallet's own transaction paid the option.

        That alone is no proof of what moved; but such an option is never unpayable.
        """


class AccountNonces(Protocol):
    """Nonces of senders, in whose order their transactions are mined."""

    async def next_nonce(self, sender: str) -> int:
        """A sender's next nonce as the chain knows it, pending transactions included."""

    async def nonce_used(self, sender: str, nonce: int) -> bool:
        """True if a transaction with a sender's nonce is final."""

    async def transfer_at(self, sender: str, nonce: int) -> SentTransfer | None:
        """Return a sender's transaction in a block with a nonce; None if none can be found.

        A node that has no old states cannot find one. The transaction's bytes are checked against
        its hash, and its signature against the sender's address.
        """

    async def fill(self, sender: str, nonce: int) -> Signed:
        """Signs, with a sender's or the treasury's key, what does nothing but use a nonce."""

    async def bump(self, tx: ChainTx) -> Signed:
        """Signs a transaction again, with its nonce, for a higher fee.

        RailUnavailable also if the limits allow no higher fee.
        """


class TreasuryHistory(Protocol):
    """What the treasury's key signed, as the chain has it, on chains without nonces."""

    async def list_since(self, signature: str) -> list[Noted]:
        """Return the final transactions that name the treasury, the newest first.

        Those after a transaction, or all if that is empty; only as many as a node gives at once.
        """

    async def find_signed(self, signature: str) -> Signed | None:
        """Return the transaction with a signature; None if the treasury did not sign it."""


class Gas(Protocol):
    """Gas that is paid for what is computed, and shared by the payments of one transaction."""

    def batches(self, items: Sequence[Accepted]) -> list[Sequence[Accepted]]:
        """Cuts items, as they stand, into what one transaction settles each."""

    async def look(self, items: Sequence[Accepted]) -> list[Accepted]:
        """The items with what their payers are now, one batched read.

        An account may have got code, or lost it, since its payment was confirmed.
        """

    async def had_too_little_gas(self, item: Accepted, had: Share) -> bool:
        """Return whether an item failed because Florin gave it too little gas: no payer's fault."""


class Payouts(Protocol):
    """Transfers out of the treasury of one chain, signed by its own key."""

    @property
    def sender(self) -> str:
        """Address of the key, lower-case where case does not count."""

    @property
    def gas_payer(self) -> str:
        """Address that pays for its transactions; the key's own on most chains."""

    @property
    def problem(self) -> str:
        """Why nothing can be paid out at all; empty if it can."""

    async def obstacle(self, transfer: Transfer, ahead: Sequence[Transfer]) -> str | None:
        """Why a transfer would fail if it were sent now, in a sentence; None if it would not.

        `ahead` are those on their way, whose money is spent already.
        """

    async def sign(self, nonce: int, transfer: Transfer) -> Signed:
        """Signs the one transaction that makes a transfer."""

    async def effect(self, tx: ChainTx, tx_hash: str, transfer: Transfer) -> Effect:
        """What a final transaction moved; `tx_hash` is the variant of it that was mined."""

    async def cannot_be_mined(self, tx: ChainTx, lapses_at: int | None) -> bool:
        """True if no block can hold the transaction any more, judged at final depth.

        The caller must look for the transaction after this answer.
        """


class Faucet(Protocol):
    """Test money, on a chain whose money is worth nothing.

    What is given is bounded by account, call and day. One that gives nothing raises nothing.
    """

    async def give(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Gives accounts (CAIP-10) what is usual, at least of the assets that have prices."""

    async def fill(self, accounts: Sequence[str], prices: Mapping[str, int]) -> None:
        """Fills accounts up to prices (minor units by CAIP-19), which may be more."""
