"""The journal of our transactions: stored before they are sent, with items and variants, and ended.

A transaction is recorded before it is broadcast, together with what claims its items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from sqlalchemy import Update, func, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Params,
    Statement,
    StoreError,
    insert,
    is_in,
    is_one_of,
    operation,
    param,
)
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import chain_tx_bump_table, chain_tx_item_table, chain_tx_table
from florin_server.domain.ledger import journals
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    PayerKind,
    TransactionOutcome,
    TransactionVariant,
    TxState,
)
from florin_server.domain.settlement.state import TRANSACTION_TRANSITIONS, TxEvent
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import gas, used_nonces
from florin_server.operations.store import leases


class LostLease(StoreError):  # noqa: N818  (a state of the world, not a mistake)
    """Another process works on this now; nothing was written, and nothing can be broadcast."""

    is_transient = True


class ItemsUnavailable(LostLease):
    """Items of a transaction are already done, or are in another transaction."""


class _TransactionRow(NamedTuple):
    """A row of `chain_tx`: a transaction without its items and variants."""

    id: str
    chain_id: str
    sender: str
    nonce: int
    raw: bytes
    hash: str
    state: TxState
    created_at_us: int
    sent_block: int | None
    block_number: int | None
    block_hash: str | None
    final_hash: str | None
    since_block: int | None


class _Variant(NamedTuple):
    tx_id: str
    variant: TransactionVariant


class _Item(NamedTuple):
    tx_id: str
    payment_id: str | None
    payout_id: str | None
    kind: PayerKind | None
    gas: int


class _EndedTransaction(NamedTuple):
    hash: str
    chain_id: str


_BUMPS = Statement(
    select(chain_tx_bump_table.c.tx_id, chain_tx_bump_table.c.raw, chain_tx_bump_table.c.hash)
    .where(is_in(chain_tx_bump_table.c.tx_id, "ids"))
    .order_by(chain_tx_bump_table.c.tx_id, chain_tx_bump_table.c.n),
    _Variant,
    variant=TransactionVariant,
)
_ITEMS = Statement(
    select(
        chain_tx_item_table.c.tx_id,
        chain_tx_item_table.c.payment_id,
        chain_tx_item_table.c.payout_id,
        chain_tx_item_table.c.kind,
        chain_tx_item_table.c.gas,
    )
    .where(is_in(chain_tx_item_table.c.tx_id, "ids"))
    .order_by(chain_tx_item_table.c.tx_id, chain_tx_item_table.c.n),
    _Item,
)
_APPEND = Command(insert(chain_tx_table))
_ITEM = Command(insert(chain_tx_item_table))
_FILTER_HASHES = Statement(
    select(chain_tx_table.c.hash).where(
        chain_tx_table.c.chain_id == param("chain_id"), is_in(chain_tx_table.c.hash, "hashes")
    ),
    str,
)
_OPEN_TXS = Statement(
    select(*chain_tx_table.c)
    .where(
        text(OPEN_TX_PREDICATE),
        chain_tx_table.c.chain_id == param("chain_id"),
        chain_tx_table.c.sender == param("sender"),
    )
    .order_by(chain_tx_table.c.nonce),
    _TransactionRow,
)
_AT_NONCE = Statement(
    select(*chain_tx_table.c)
    .where(
        chain_tx_table.c.chain_id == param("chain_id"),
        chain_tx_table.c.sender == param("sender"),
        chain_tx_table.c.nonce == param("nonce"),
    )
    .order_by(chain_tx_table.c.created_at_us.desc(), chain_tx_table.c.id),
    _TransactionRow,
)
_BUMP = Command(insert(chain_tx_bump_table))


def _update_by_event(event: TxEvent) -> Update:
    """Build an update by the state table; it changes nothing if the event cannot happen."""
    return (
        update(chain_tx_table)
        .where(
            chain_tx_table.c.id == param("tx_id"),
            is_one_of(chain_tx_table.c.state, TRANSACTION_TRANSITIONS.list_sources(event)),
        )
        .values(state=TRANSACTION_TRANSITIONS.get_target(event))
    )


_SENT = Command(_update_by_event(TxEvent.SENT).values(sent_block=param("block")))
_END = {
    TRANSACTION_TRANSITIONS.get_target(event): Statement(
        _update_by_event(event)
        .values(
            block_number=param("block_number"),
            block_hash=param("block_hash"),
            final_hash=param("final_hash"),
        )
        .returning(
            func.coalesce(chain_tx_table.c.final_hash, chain_tx_table.c.hash).label("hash"),
            chain_tx_table.c.chain_id,
        ),
        _EndedTransaction,
    )
    for event in (TxEvent.FINAL, TxEvent.REPLACED)
}


@operation
def append(tx: ChainTx, epoch: int, lease: str, claim: Operation[None]) -> Op[None]:
    """Record a signed transaction, with its items and its nonce.

    Raise LostLease if the epoch is not the lease's newest. `claim` claims the items in the same
    transaction, and raises ItemsUnavailable if an item is not waiting. After either error these
    bytes must never be broadcast.
    """
    yield from _require_lease(lease, epoch)
    yield from claim
    yield _APPEND(tx)
    if tx.item_ids:
        yield _ITEM.bind_many(_to_item_rows(tx))
    yield from used_nonces.record_next_nonce(tx.chain_id, tx.sender, tx.nonce + 1)


@operation
def bump(tx: ChainTx, variant: TransactionVariant, epoch: int, lease: str, now_us: int) -> Op[None]:
    """Record that a transaction was signed again for a higher fee; LostLease like `append`.

    The number of a variant is unique, so that no two processes record the same next variant.
    """
    yield from _require_lease(lease, epoch)
    yield _BUMP(
        tx_id=tx.id, n=len(tx.bumps), raw=variant.raw, hash=variant.hash, created_at_us=now_us
    )


def _require_lease(lease: str, epoch: int) -> Op[None]:
    if not (yield from leases.is_current(lease, epoch)):
        raise LostLease(f"lease {lease} was taken over after epoch {epoch}")


@operation
def filter_known_hashes(chain_id: str, hashes: Collection[str]) -> Op[set[str]]:
    """Return which of some hashes belong to recorded transactions of ours."""
    return set((yield from _FILTER_HASHES.all(chain_id=chain_id, hashes=hashes)))


@operation
def record_broadcasts(heads: Mapping[str, int]) -> Op[None]:
    """Record broadcasts of transactions, first or repeated, with the chain's head."""
    for tx_id, head in heads.items():
        yield _SENT(tx_id=tx_id, block=head)


@operation
def list_open(chain_id: str, sender: str) -> Op[list[ChainTx]]:
    """Return a key's transactions that are neither final nor replaced, by nonce."""
    return (
        yield from _load_transactions((yield from _OPEN_TXS.all(chain_id=chain_id, sender=sender)))
    )


@operation
def list_at_nonce(chain_id: str, sender: str, nonce: int) -> Op[list[ChainTx]]:
    """Return all transactions ever signed for a nonce, the newest first."""
    transactions = yield from _AT_NONCE.all(chain_id=chain_id, sender=sender, nonce=nonce)
    return (yield from _load_transactions(transactions))


@operation
def finalize_transactions(
    transaction_outcomes: Sequence[TransactionOutcome], now_us: int
) -> Op[None]:
    """End transactions, and book their cost and gas once; part of an operation."""
    for outcome in sorted(transaction_outcomes, key=attrgetter("tx_id")):
        ended = yield from _END[outcome.state].first(
            tx_id=outcome.tx_id,
            block_number=outcome.block_number,
            block_hash=outcome.block_hash,
            final_hash=outcome.final_hash,
        )
        if ended is not None and outcome.cost_postings:
            key = journals.gas_key(outcome.tx_id)
            yield from ledger.post_again(
                key, journals.JournalKind.GAS, None, ended.hash, outcome.cost_postings, now_us
            )
        if ended is not None and outcome.gas_spending:
            yield from gas.book(outcome.tx_id, ended.chain_id, outcome.gas_spending, now_us)


def _to_item_rows(tx: ChainTx) -> list[Params]:
    """Return the rows of a transaction's items."""
    items = [
        *((payment_id, None) for payment_id in tx.payment_ids),
        *((None, payout_id) for payout_id in tx.payout_ids),
    ]
    return [_to_item_row(tx, n, *item) for n, item in enumerate(items)]


def _to_item_row(tx: ChainTx, n: int, payment_id: str | None, payout_id: str | None) -> Params:
    share = tx.gas_shares[n] if tx.gas_shares else None
    return {
        "tx_id": tx.id,
        "n": n,
        "payment_id": payment_id,
        "payout_id": payout_id,
        "kind": share.kind if share else None,
        "gas": share.gas if share else 0,
    }


def _load_transactions(rows: Sequence[_TransactionRow]) -> Op[list[ChainTx]]:
    """Return transactions from their rows, with items and variants."""
    if not rows:
        return []
    ids = [row.id for row in rows]
    settled: dict[str, list[str]] = defaultdict(list)
    payout_ids: dict[str, list[str]] = defaultdict(list)
    shares: dict[str, list[GasShare]] = defaultdict(list)
    for item in (yield from _ITEMS.all(ids=ids)):
        if item.payment_id is not None:
            settled[item.tx_id].append(item.payment_id)
        elif item.payout_id is not None:
            payout_ids[item.tx_id].append(item.payout_id)
        if item.kind is not None:
            shares[item.tx_id].append(GasShare(item.kind, item.gas))
    bumps: dict[str, list[TransactionVariant]] = defaultdict(list)
    for tx_id, variant in (yield from _BUMPS.all(ids=ids)):
        bumps[tx_id].append(variant)
    return [
        ChainTx(
            id=row.id,
            chain_id=row.chain_id,
            sender=row.sender,
            nonce=row.nonce,
            raw=row.raw,
            hash=row.hash,
            state=row.state,
            created_at_us=row.created_at_us,
            payment_ids=tuple(settled[row.id]),
            payout_ids=tuple(payout_ids[row.id]),
            sent_block=row.sent_block,
            block_number=row.block_number,
            block_hash=row.block_hash,
            final_hash=row.final_hash,
            bumps=tuple(bumps[row.id]),
            since_block=row.since_block,
            gas_shares=tuple(shares[row.id]),
        )
        for row in rows
    ]
