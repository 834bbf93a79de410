"""What the chain proves: final transactions of ours, what they moved, and those that lapsed.

Absence alone is never proof, and none at all from a node that has forgotten blocks since the
transaction can have landed. Only what is finalized counts, and whether a transaction worked is
looked at before how sure it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from solders.message import MessageV0
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.payments.payment import Option, ResolvedBuild
from florin_server.rails.connection.node import answered
from florin_server.rails.connection.witness import Testimony
from florin_server.rails.solana.paying.check import IssuedMessage, Submission, issue_of
from florin_server.rails.solana.paying.message import lapses_at
from florin_server.rails.solana.paying.terms import Terms, bare
from florin_server.rails.solana.reading.gaps import Gaps
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    Node,
    SignatureStatus,
    account_views,
    accounts_call,
    number,
    record,
    slot_of,
)
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import Fact, Head, Mined, Paid, RailUnavailable

# final transactions do not change; each is read for its end and for its payment
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Record:
    """A finalized transaction, as the node tells it.

    `fee` is bookkeeping, None if it is missing. `lamports` and `tokens` are empty and None if they
    are missing: what depends on them cannot be judged then.
    """

    slot: int
    error: Any
    fee: int | None = field(compare=False)
    lamports: tuple[tuple[int, int], ...]  # before and after, by account
    tokens: Mapping[int, int] | None  # by how much each token account changed

    def confirms(self, known: Record) -> bool:
        """Return True if it tells all that is known, and nothing else of it.

        RailUnavailable if it lacks a part of that: another node has to be asked.
        """
        if known.lamports and not self.lamports:
            raise RailUnavailable("the node tells no balances")
        if known.tokens is not None and self.tokens is None:
            raise RailUnavailable("the node tells no token balances")
        return (
            (self.slot, self.error) == (known.slot, known.error)
            and (not known.lamports or self.lamports == known.lamports)
            and (known.tokens is None or self.tokens == known.tokens)
        )


@dataclass(frozen=True, slots=True)
class Landing:
    """A transaction of ours that a payment waits for; `hash` is its first signature."""

    option: Option
    submission: Submission
    hash: str


class Evidence:
    """Reads one chain's facts; what its node has forgotten is told in `gaps`."""

    def __init__(self, node: Node, chain: SolanaChain, gaps: Gaps) -> None:
        self._node = node
        self._chain = chain
        self._gaps = gaps
        self._records: OrderedDict[str, Record] = OrderedDict()

    async def head(self) -> Head:
        """The newest finalized slot."""
        slot = number(await self._node.ask("getSlot", {"commitment": FINALIZED}))
        return Head(number=slot, hash="", time=0)

    async def mined(self, hashes: Sequence[str]) -> dict[str, Mined]:
        """Which transactions are final, whether they worked, and what they cost the relayer."""
        if not hashes:
            return {}
        known = [one for one in hashes if one in self._records]
        asked = [one for one in hashes if one not in self._records]
        statuses = await self._node.statuses(asked)
        final = [one for one, status in statuses.items() if status.final]
        records = await self._read([*known, *final])
        return {
            one: Mined(
                tx_hash=one,
                block_number=record.slot,
                block_hash="",
                success=record.error is None,
                gas_cost=record.fee,
                gas_used=record.fee,
                rent=_rent(record),
            )
            for one, record in records.items()
        }

    async def testify(self, wanted: frozenset[Fact], known: Evidence) -> Testimony:
        """Which facts the node tells: those whose transactions are what `known` has of them."""
        hashes = sorted({one.tx_hash for one in wanted})
        told, before = await self._read(hashes), await known.records(hashes)
        same = {
            one
            for one in hashes
            if one in told and one in before and told[one].confirms(before[one])
        }
        facts = frozenset(one for one in wanted if one.tx_hash in same)
        return Testimony(facts, far_enough=len(told) == len(hashes))

    async def records(self, hashes: Sequence[str]) -> Mapping[str, Record]:
        """What finalized transactions did, to be compared."""
        return await self._read(hashes)

    def forget(self, hashes: Iterable[str]) -> None:
        """Transactions that were told wrong are read again."""
        for one in hashes:
            self._records.pop(one, None)

    async def paid(self, landings: Sequence[Landing]) -> list[Paid]:
        """What the final ones among the transactions paid."""
        records = await self._read([one.hash for one in landings])
        found = []
        for one in landings:
            record = records.get(one.hash)
            terms, payer = Terms.of(one.option), bare(one.option.payer)
            # the accounts are those of the message that we signed, whatever the node says it was
            if record is not None and moved(terms, payer, one.submission.message, record):
                found.append(
                    Paid(
                        ref=terms.ref,
                        tx_hash=one.hash,
                        block_number=record.slot,
                        block_hash="",
                        payer=payer,
                        dest=terms.dest,
                        fee_to=terms.fee_to or "",
                        token=terms.mint,
                        value=terms.value,
                        fee=terms.fee,
                        nonce="",
                        position=terms.position_in(one.submission.message),
                    )
                )
        return found

    async def end(
        self, tx_hash: str, message: MessageV0, issued: Sequence[ResolvedBuild], since: int = 0
    ) -> str | None:
        """Why a transaction will never pay, judged at final depth; None while it may.

        It failed for good, or its blockhash lapsed and it is nowhere. One that was issued cannot
        have landed before that, and one of our own not before the slot `since`.
        """
        ours = issue_of(message, issued)
        if ours is not None and ours.nonce is not None:
            return await self._end_by_nonce(tx_hash, ours, ours.nonce)
        if ours is not None:
            return await self.end_of(tx_hash, ours.last_valid, ours.head)
        return await self.end_of(tx_hash, lapses_at(message), since)

    async def end_of(self, tx_hash: str, last_valid: int | None, since: int) -> str | None:
        """The same for a transaction whose blockhash is good up to a height, if that is known.

        It cannot have landed before the slot `since`.
        """
        slot, height = await self._node.batch(
            [
                ("getSlot", ({"commitment": FINALIZED},)),
                ("getBlockHeight", ({"commitment": FINALIZED},)),
            ]
        )
        # asked for after the height: what landed in time is seen then
        status, first = await self._node.status(tx_hash, least=number(slot))
        if status is not None:
            return _failure(status)
        if last_valid is None or number(height) <= last_valid:
            return None
        if not self._gaps.proves_absence(tx_hash, since, first):
            return None
        return "The transaction lapsed before it landed"

    async def _end_by_nonce(self, tx_hash: str, ours: IssuedMessage, nonce: str) -> str | None:
        """The same for a transaction that lapses when its nonce is advanced."""
        (answer,) = await self._node.batch([accounts_call([spl.pubkey(nonce)], FINALIZED)])
        slot = slot_of(answer)
        if slot < ours.slot:
            # an older value of the nonce is no newer one
            raise RailUnavailable(f"{self._chain.name}: the node lags behind what was seen before")
        # asked for after the nonce: whatever advanced it is seen then
        status, first = await self._node.status(tx_hash, least=slot)
        if status is not None:
            return _failure(status)
        (account,) = account_views(answer)
        held = None if account is None else spl.nonce_of(account.data)
        if held is None or held.value == ours.message.recent_blockhash:
            return None
        if not self._gaps.proves_absence(tx_hash, ours.head, first):
            return None
        return "The transaction's nonce was used up before it landed"

    async def changes(
        self, tx_hash: str, message: MessageV0, *, coin: bool
    ) -> dict[Pubkey, int] | None:
        """By how much a final transaction of ours changed token accounts; None if it failed.

        For `coin`: the lamports of every account but its own, from which it was paid for.
        """
        record = (await self._read([tx_hash])).get(tx_hash)
        if record is None:
            raise RailUnavailable(f"{self._chain.name}: a final transaction is missing")
        if record.error is not None:
            return None
        if not coin:
            return token_changes(message, record)
        moved = coin_changes(message, record)
        return {key: change for key, change in moved.items() if key != message.account_keys[0]}

    async def _read(self, hashes: Sequence[str]) -> dict[str, Record]:
        """Finalized transactions; one batched read."""
        missing = [one for one in dict.fromkeys(hashes) if one not in self._records]
        config = {
            "commitment": FINALIZED,
            "encoding": "base64",
            "maxSupportedTransactionVersion": 0,
        }
        answers = await self._node.batch([("getTransaction", (one, config)) for one in missing])
        for one, answer in zip(missing, answers, strict=True):
            if answered(answer) is not None:
                self._records[one] = record_of(answer, self._chain.name)
        found = {one: self._records[one] for one in hashes if one in self._records}
        while len(self._records) > _REMEMBERED:
            self._records.popitem(last=False)
        return found


def record_of(answer: Any, chain: str) -> Record:
    """A transaction as a node tells it; RailUnavailable if something is missing."""
    told = record(answer)
    meta = record(told.get("meta"))
    if "err" not in meta:
        raise RailUnavailable(f"{chain}: a transaction came without its error")
    before, after = _numbers(meta.get("preBalances")), _numbers(meta.get("postBalances"))
    if len(before) != len(after):
        raise RailUnavailable(f"{chain}: a transaction came with half of its balances")
    old, new = _tokens(meta.get("preTokenBalances")), _tokens(meta.get("postTokenBalances"))
    changes = None
    if old is not None and new is not None:
        changes = {index: new.get(index, 0) - old.get(index, 0) for index in {*old, *new}}
    return Record(
        slot=number(told.get("slot")),
        error=meta["err"],
        fee=_fee(meta.get("fee")),
        lamports=tuple(zip(before, after, strict=True)),
        tokens=changes,
    )


def _failure(status: SignatureStatus) -> str | None:
    """Why a transaction that is in a block will never pay; None while it may have."""
    failed = status.final and status.error is not None
    return f"The transaction failed on chain: {status.error}" if failed else None


def moved(terms: Terms, payer: str, message: MessageV0, seen: Record) -> bool:
    """True if every token account, or every receiver of coin, changed by exactly what was promised.

    A payer of coin may have paid for a guard of its wallet too.
    """
    if seen.error is not None:
        return False
    promised = terms.changes(payer)
    if terms.is_coin:
        changes, source = coin_changes(message, seen), terms.place(payer)
        exact = all(changes.get(key, 0) == promised[key] for key in promised if key != source)
        return exact and changes.get(source, 0) <= promised[source]
    wanted = {key: change for key, change in promised.items() if change}
    return token_changes(message, seen) == wanted


def token_changes(message: MessageV0, record: Record) -> dict[Pubkey, int]:
    """Return by how much token accounts changed; RailUnavailable if the node does not tell."""
    if record.tokens is None:
        raise RailUnavailable("the node tells no token balances")
    keys: list[Pubkey] = message.account_keys
    return {
        keys[index]: change
        for index, change in record.tokens.items()
        if change and index < len(keys)
    }


def coin_changes(message: MessageV0, record: Record) -> dict[Pubkey, int]:
    """By how many lamports accounts changed."""
    changes = [after - before for before, after in record.lamports]
    if len(changes) != len(message.account_keys):
        raise RailUnavailable("the node told balances of other accounts than the message names")
    moved = zip(message.account_keys, changes, strict=True)
    return {key: change for key, change in moved if change}


def _fee(told: Any) -> int | None:
    """Read a fee; None if it is missing or cannot be read, as nothing depends on it."""
    try:
        return number(told)
    except RailUnavailable:
        return None


def _rent(record: Record) -> int:
    """Return what the relayer paid beside the fee; 0 if the node does not tell it."""
    if record.fee is None or not record.lamports:
        return 0
    before, after = record.lamports[0]
    return before - after - record.fee


def _numbers(told: Any) -> list[int]:
    if told is None:
        return []
    if not isinstance(told, list):
        raise RailUnavailable("the node answered something else than balances")
    return [number(one) for one in told]


def _tokens(told: Any) -> dict[int, int] | None:
    if told is None:
        return None
    if not isinstance(told, list):
        raise RailUnavailable("the node answered something else than token balances")
    found = {}
    for one in told:
        entry = record(one)
        amount = record(entry.get("uiTokenAmount")).get("amount")
        if not isinstance(amount, str) or not amount.isdecimal():
            raise RailUnavailable("the node answered a token balance that is no number")
        found[number(entry.get("accountIndex"))] = int(amount)
    return found
