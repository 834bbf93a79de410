"""The chain's evidence: our final transactions, their effects, and expired transactions.

Absence alone is never proof. It proves nothing at all from a node that no longer has every block in
which the transaction can have landed. Only finalized data counts, and whether a transaction
succeeded is checked before its finality.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from solders.message import MessageV0
from solders.pubkey import Pubkey

from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.payment import PaymentOption, ResolvedBuild
from florin_server.rails.connection.node import require_result
from florin_server.rails.connection.quorum_reader import Attestation
from florin_server.rails.solana.paying.check import (
    IssuedMessage,
    PayerSignedMessage,
    find_issued_message,
)
from florin_server.rails.solana.paying.message import find_lapse_height
from florin_server.rails.solana.paying.terms import AnyMessage, SolanaOptionTerms, to_address
from florin_server.rails.solana.reading.gaps import HistoryGaps
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SignatureStatus,
    SolanaNode,
    build_accounts_call,
    parse_account_views,
    parse_number,
    parse_object,
    parse_slot,
)
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import (
    ChainHead,
    ConfirmableFact,
    MinedTransaction,
    RailUnavailable,
    SettlementEvent,
)

# final transactions do not change; each is read for its end and for its payment
_CACHED_MAX = 512


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A finalized transaction, as the node reports it.

    `fee` is bookkeeping, None if it is missing. `lamports` is empty and `tokens` is None if
    missing: then their dependents cannot be judged.
    """

    slot: int
    error: Any
    fee: int | None = field(compare=False)
    lamports: tuple[tuple[int, int], ...]  # before and after, by account
    tokens: Mapping[int, int] | None  # the change of each token account

    def is_consistent_with(self, other: TransactionRecord) -> bool:
        """Return True if it contains all that `other` contains, and agrees with it.

        Raise RailUnavailable if it lacks a part of that: another node must be asked.
        """
        if other.lamports and not self.lamports:
            raise RailUnavailable("the node reports no balances")
        if other.tokens is not None and self.tokens is None:
            raise RailUnavailable("the node reports no token balances")
        return (
            (self.slot, self.error) == (other.slot, other.error)
            and (not other.lamports or self.lamports == other.lamports)
            and (other.tokens is None or self.tokens == other.tokens)
        )


@dataclass(frozen=True, slots=True)
class SettlementTransaction:
    """A transaction of ours for which a payment waits; `hash` is its first signature."""

    option: PaymentOption
    submission: PayerSignedMessage
    hash: str


class EndReason(NamedTuple):
    """The reason why a transaction never pays; `has_landed` if a block has it: its fee is due."""

    text: str
    has_landed: bool


class SolanaEvidenceReader:
    """Read one chain's facts; record in `gaps` what its node no longer has."""

    def __init__(self, node: SolanaNode, chain: SolanaChainSettings, gaps: HistoryGaps) -> None:
        self._node = node
        self._chain = chain
        self._gaps = gaps
        self._records: OrderedDict[str, TransactionRecord] = OrderedDict()

    async def get_head(self) -> ChainHead:
        """Return the newest finalized slot."""
        slot = parse_number(await self._node.call("getSlot", {"commitment": FINALIZED}))
        return ChainHead(number=slot, hash="", time=0)

    async def find_mined(self, hashes: Sequence[str]) -> dict[str, MinedTransaction]:
        """Return which transactions are final, whether they succeeded, and the relayer's cost."""
        if not hashes:
            return {}
        recorded_hashes = [tx_hash for tx_hash in hashes if tx_hash in self._records]
        unread_hashes = [tx_hash for tx_hash in hashes if tx_hash not in self._records]
        statuses = await self._node.list_statuses(unread_hashes)
        final = [tx_hash for tx_hash, status in statuses.items() if status.is_final]
        records = await self._read_transactions([*recorded_hashes, *final])
        return {
            tx_hash: MinedTransaction(
                tx_hash=tx_hash,
                block_number=record.slot,
                block_hash="",
                success=record.error is None,
                gas_cost=record.fee,
                gas_used=record.fee,
                rent=_compute_rent(record),
            )
            for tx_hash, record in records.items()
        }

    async def attest(
        self, facts: frozenset[ConfirmableFact], reference: SolanaEvidenceReader
    ) -> Attestation:
        """Return the facts whose transactions are on this node exactly as in `reference`."""
        hashes = sorted({fact.tx_hash for fact in facts})
        transaction_records, before = (
            await self._read_transactions(hashes),
            await reference.read_records(hashes),
        )
        same = {
            tx_hash
            for tx_hash in hashes
            if tx_hash in transaction_records
            and tx_hash in before
            and transaction_records[tx_hash].is_consistent_with(before[tx_hash])
        }
        confirmed = frozenset(fact for fact in facts if fact.tx_hash in same)
        return Attestation(confirmed, is_caught_up=len(transaction_records) == len(hashes))

    async def read_records(self, hashes: Sequence[str]) -> Mapping[str, TransactionRecord]:
        """Return the records of finalized transactions, for comparison."""
        return await self._read_transactions(hashes)

    def forget_records(self, hashes: Iterable[str]) -> None:
        """Read transactions again for which a wrong record was returned."""
        for tx_hash in hashes:
            self._records.pop(tx_hash, None)

    async def list_settlement_events(
        self, transactions: Sequence[SettlementTransaction]
    ) -> list[SettlementEvent]:
        """Return the settlement events of the final transactions."""
        records = await self._read_transactions([landing.hash for landing in transactions])
        events = []
        for settlement_transaction in transactions:
            record = records.get(settlement_transaction.hash)
            terms, payer = (
                SolanaOptionTerms.from_option(settlement_transaction.option),
                to_address(settlement_transaction.option.payer),
            )
            # the accounts come from the message that we signed, not from the node
            if record is not None and is_moved(
                terms, payer, settlement_transaction.submission.message, record
            ):
                events.append(
                    SettlementEvent(
                        ref=terms.ref,
                        tx_hash=settlement_transaction.hash,
                        block_number=record.slot,
                        block_hash="",
                        payer=payer,
                        dest=terms.dest,
                        fee_to=terms.fee_to or "",
                        token=terms.mint,
                        value=terms.value,
                        fee=terms.fee,
                        nonce="",
                        position=terms.find_position(settlement_transaction.submission.message),
                    )
                )
        return events

    async def find_end_reason(
        self,
        tx_hash: str,
        message: MessageV0,
        resolved_builds: Sequence[ResolvedBuild],
        since: int = 0,
    ) -> EndReason | None:
        """Return why a transaction will never pay, judged at final depth; None while it can.

        Either it failed for good, or its blockhash expired and no block has it. An issued
        transaction cannot have landed before its issue, and one of ours not before the slot
        `since`.
        """
        issued_message = find_issued_message(message, resolved_builds)
        if issued_message is not None and issued_message.nonce is not None:
            return await self._find_end_reason_by_nonce(
                tx_hash, issued_message, issued_message.nonce
            )
        payer = str(message.account_keys[0])
        if issued_message is not None:
            return await self.find_end_reason_by_height(
                payer, tx_hash, issued_message.last_valid, issued_message.head
            )
        last_valid = find_lapse_height(message)
        return await self.find_end_reason_by_height(payer, tx_hash, last_valid, since)

    async def find_end_reason_by_height(
        self, payer: str, tx_hash: str, last_valid: int | None, since: int
    ) -> EndReason | None:
        """Return why a transaction with a blockhash valid up to a height will never pay; or None.

        The height is None if it is unknown. The transaction cannot have landed before the slot
        `since`. `payer` pays its fee.
        """
        slot, height = await self._node.batch(
            [
                ("getSlot", ({"commitment": FINALIZED},)),
                ("getBlockHeight", ({"commitment": FINALIZED},)),
            ]
        )
        # read after the height, so that a transaction that landed in time is visible
        status, first = await self._node.get_status(tx_hash, min_slot=parse_number(slot))
        if status is not None:
            return _find_failure(status)
        if last_valid is None or parse_number(height) <= last_valid:
            return None
        if not await self._is_absent(payer, tx_hash, since, first, parse_number(slot)):
            return None
        return EndReason("The transaction lapsed before it landed", has_landed=False)

    async def _find_end_reason_by_nonce(
        self, tx_hash: str, issued_message: IssuedMessage, nonce: str
    ) -> EndReason | None:
        """Return why a transaction will never pay that expires when its nonce is advanced."""
        (answer,) = await self._node.batch(
            [build_accounts_call([spl.parse_pubkey(nonce)], FINALIZED)]
        )
        slot = parse_slot(answer)
        if slot < issued_message.slot:
            # an older value of the nonce must not pass for a newer value
            raise RailUnavailable(f"{self._chain.name}: the node lags behind what was seen before")
        # read after the nonce, so that the transaction that advanced it is visible
        status, first = await self._node.get_status(tx_hash, min_slot=slot)
        if status is not None:
            return _find_failure(status)
        (account,) = parse_account_views(answer)
        held = None if account is None else spl.parse_nonce(account.data)
        if held is None or held.value == issued_message.message.recent_blockhash:
            return None
        is_long_used = self._gaps.is_long_used(tx_hash, slot)
        payer = str(issued_message.message.account_keys[0])
        if not await self._is_absent(payer, tx_hash, issued_message.head, first, slot):
            return None
        if not is_long_used:
            return None
        return EndReason("The transaction's nonce was used up before it landed", has_landed=False)

    async def _is_absent(
        self, payer: str, tx_hash: str, since: int, first: int | None, slot: int
    ) -> bool:
        """Return whether no block up to a slot has a transaction without a status.

        A node that lacks a status for a while has the transaction in the index of its payer.
        """
        if not self._gaps.is_absence_proven(tx_hash, since, first):
            return False
        return not await self._node.is_listed(payer, tx_hash, since, slot)

    async def find_changes(
        self, tx_hash: str, message: MessageV0, *, is_coin: bool
    ) -> dict[Pubkey, int] | None:
        """Return the token account changes of our final transaction; None if it failed.

        For `is_coin`: the lamport changes of every account but the fee payer's.
        """
        record = (await self._read_transactions([tx_hash])).get(tx_hash)
        if record is None:
            raise RailUnavailable(f"{self._chain.name}: a final transaction is missing")
        if record.error is not None:
            return None
        if not is_coin:
            return compute_token_changes(message, record)
        moved = compute_coin_changes(message, record)
        return {key: change for key, change in moved.items() if key != message.account_keys[0]}

    async def _read_transactions(self, hashes: Sequence[str]) -> dict[str, TransactionRecord]:
        """Return finalized transactions; one batched read."""
        missing = [tx_hash for tx_hash in dict.fromkeys(hashes) if tx_hash not in self._records]
        config = {
            "commitment": FINALIZED,
            "encoding": "base64",
            "maxSupportedTransactionVersion": 0,
        }
        answers = await self._node.batch(
            [("getTransaction", (tx_hash, config)) for tx_hash in missing]
        )
        for missing_hash, answer in zip(missing, answers, strict=True):
            if require_result(answer) is not None:
                self._records[missing_hash] = parse_record(answer, self._chain.name)
        transaction_records = {
            tx_hash: self._records[tx_hash] for tx_hash in hashes if tx_hash in self._records
        }
        while len(self._records) > _CACHED_MAX:
            self._records.popitem(last=False)
        return transaction_records


def parse_record(answer: Any, chain: str) -> TransactionRecord:
    """Parse a transaction as a node reports it; raise RailUnavailable if a part is missing."""
    transaction = parse_object(answer)
    meta = parse_object(transaction.get("meta"))
    if "err" not in meta:
        raise RailUnavailable(f"{chain}: a transaction came without its error")
    before, after = (
        _parse_numbers(meta.get("preBalances")),
        _parse_numbers(meta.get("postBalances")),
    )
    if len(before) != len(after):
        raise RailUnavailable(f"{chain}: a transaction came with half of its balances")
    old, new = (
        _parse_token_balances(meta.get("preTokenBalances")),
        _parse_token_balances(meta.get("postTokenBalances")),
    )
    changes = None
    if old is not None and new is not None:
        changes = {index: new.get(index, 0) - old.get(index, 0) for index in {*old, *new}}
    return TransactionRecord(
        slot=parse_number(transaction.get("slot")),
        error=meta["err"],
        fee=_parse_fee(meta.get("fee")),
        lamports=tuple(zip(before, after, strict=True)),
        tokens=changes,
    )


def _find_failure(status: SignatureStatus) -> EndReason | None:
    """Return why a transaction in a block will never pay; None while it may have paid."""
    if not status.is_final or status.error is None:
        return None
    return EndReason(f"The transaction failed on chain: {status.error}", has_landed=True)


def is_moved(
    terms: SolanaOptionTerms, payer: str, message: AnyMessage, record: TransactionRecord
) -> bool:
    """Return True if every token account, or every receiver of coin, changed as promised.

    A payer of coin may also have paid for a guard of its wallet.
    """
    if record.error is not None:
        return False
    promised = terms.compute_changes(payer)
    if terms.is_coin:
        changes, source = compute_coin_changes(message, record), terms.get_token_address(payer)
        exact = all(changes.get(key, 0) == promised[key] for key in promised if key != source)
        return exact and changes.get(source, 0) <= promised[source]
    expected_changes = {key: change for key, change in promised.items() if change}
    return compute_token_changes(message, record) == expected_changes


def compute_token_changes(message: AnyMessage, record: TransactionRecord) -> dict[Pubkey, int]:
    """Return the changes of token accounts; raise RailUnavailable if the node lacks them."""
    if record.tokens is None:
        raise RailUnavailable("the node reports no token balances")
    keys: list[Pubkey] = message.account_keys
    return {
        keys[index]: change
        for index, change in record.tokens.items()
        if change and index < len(keys)
    }


def compute_coin_changes(message: AnyMessage, record: TransactionRecord) -> dict[Pubkey, int]:
    """Return the changes of accounts in lamports."""
    changes = [after - before for before, after in record.lamports]
    if len(changes) != len(message.account_keys):
        raise RailUnavailable("the node reported balances of other accounts than the message names")
    moved = zip(message.account_keys, changes, strict=True)
    return {key: change for key, change in moved if change}


def _parse_fee(value: Any) -> int | None:
    """Parse a fee; return None if it is missing or unreadable, as nothing depends on it."""
    try:
        return parse_number(value)
    except RailUnavailable:
        return None


def _compute_rent(record: TransactionRecord) -> int:
    """Return what the relayer paid besides the fee, in lamports; 0 if the node lacks it."""
    if record.fee is None or not record.lamports:
        return 0
    before, after = record.lamports[0]
    return before - after - record.fee


def _parse_numbers(value: Any) -> list[int]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RailUnavailable("the node returned something other than balances")
    return [parse_number(item) for item in value]


def _parse_token_balances(value: Any) -> dict[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise RailUnavailable("the node returned something other than token balances")
    balances = {}
    for item in value:
        entry = parse_object(item)
        amount = parse_object(entry.get("uiTokenAmount")).get("amount")
        if not isinstance(amount, str) or not amount.isdecimal():
            raise RailUnavailable("the node returned a token balance that is not a number")
        balances[parse_number(entry.get("accountIndex"))] = int(amount)
    return balances
