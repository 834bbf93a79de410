"""Reversal of settlements by reorgs that are deeper than finality.

A transaction that ended something is watched for a while longer. When its block is gone, the books
are reversed by opposite entries, and settlement starts again with the same authorization and the
same bytes. The status of a payment or a refund never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import delete, func, null, select, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    is_in,
    is_one_of,
    operation,
    param,
    upsert,
)
from florin_server.db.tables.payments import ConfirmationState
from florin_server.db.tables.tables import (
    chain_tx_item_table,
    chain_tx_table,
    confirmation_table,
    payment_table,
    watched_tx_table,
)
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import ReorgWatcher, TxState, WatchedTransaction
from florin_server.domain.settlement.state import TRANSACTION_TRANSITIONS, TxEvent
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import effects
from florin_server.money.payouts.store import held_money, payouts
from florin_server.money.settlement.store import address_sweeps
from florin_server.operations.store.quarantine import is_excluded

# payments that transactions paid, and our transactions among these, by id
AffectedItems = tuple[list[str], list[str]]


class _ReopenedTransaction(NamedTuple):
    id: str
    hash: str


class _Unwatched(NamedTuple):
    tx_hash: str
    block_number: int


class _PaidItem(NamedTuple):
    tx_id: str
    payout_id: str


_WATCH = Command(upsert(watched_tx_table, "chain_id", "tx_hash"))
_WATCHED = Statement(
    select(
        watched_tx_table.c.tx_hash, watched_tx_table.c.block_number, watched_tx_table.c.block_hash
    ).where(
        watched_tx_table.c.chain_id == param("chain"), watched_tx_table.c.watcher == param("by")
    ),
    WatchedTransaction,
)
_FORGET = Command(
    delete(watched_tx_table).where(
        watched_tx_table.c.chain_id == param("chain"),
        watched_tx_table.c.watcher == param("by"),
        watched_tx_table.c.block_number < param("number"),
        ~is_excluded(QuarantinedItemKind.WATCHED, watched_tx_table.c.tx_hash),
    )
)
_UNWATCH = Statement(
    delete(watched_tx_table)
    .where(
        watched_tx_table.c.chain_id == param("chain"),
        watched_tx_table.c.watcher == param("by"),
        is_in(watched_tx_table.c.tx_hash, "hashes"),
    )
    .returning(watched_tx_table.c.tx_hash, watched_tx_table.c.block_number),
    _Unwatched,
)
_PAID_BY = Statement(
    select(payment_table.c.id)
    .join_from(
        payment_table, confirmation_table, confirmation_table.c.payment_id == payment_table.c.id
    )
    .where(
        is_in(payment_table.c.tx_id, "hashes"),
        payment_table.c.status == PaymentStatus.SUCCEEDED,
        confirmation_table.c.chain_id == param("chain"),
        confirmation_table.c.state == ConfirmationState.DONE,
    )
    .order_by(payment_table.c.id),
    str,
)
_ENDED = Statement(
    select(chain_tx_table.c.id).where(
        chain_tx_table.c.chain_id == param("chain"),
        is_in(chain_tx_table.c.sender, "senders"),
        is_in(func.coalesce(chain_tx_table.c.final_hash, chain_tx_table.c.hash), "hashes"),
        chain_tx_table.c.state == TxState.FINAL,
    ),
    str,
)
_REOPEN = Statement(
    update(chain_tx_table)
    .where(
        is_in(chain_tx_table.c.id, "ids"),
        is_one_of(chain_tx_table.c.state, TRANSACTION_TRANSITIONS.list_sources(TxEvent.UNDONE)),
    )
    .values(
        state=TRANSACTION_TRANSITIONS.get_target(TxEvent.UNDONE),
        sent_block=null(),
        block_number=null(),
        block_hash=null(),
        final_hash=null(),
    )
    .returning(chain_tx_table.c.id, chain_tx_table.c.hash),
    _ReopenedTransaction,
)
_PAYOUTS = Statement(
    select(chain_tx_item_table.c.tx_id, chain_tx_item_table.c.payout_id).where(
        is_in(chain_tx_item_table.c.tx_id, "ids"), chain_tx_item_table.c.payout_id.is_not(None)
    ),
    _PaidItem,
)
_HELD = Statement.nullable(
    select(chain_tx_item_table.c.payment_id).where(is_in(chain_tx_item_table.c.tx_id, "ids")), str
)
_BACK = Command(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        (confirmation_table.c.state == ConfirmationState.DONE)
        | (confirmation_table.c.state == ConfirmationState.HELD),
    )
    .values(state=param("next_state"), retry_at_us=0)
)


@operation
def watch(
    chain_id: str, watcher: ReorgWatcher, transactions: Sequence[WatchedTransaction]
) -> Op[None]:
    """Watch transactions from now on; part of an operation."""
    if transactions:
        yield _WATCH.bind_many(
            [
                {
                    "chain_id": chain_id,
                    "tx_hash": each_watched_tx.tx_hash,
                    "watcher": watcher,
                    "block_number": each_watched_tx.block_number,
                    "block_hash": each_watched_tx.block_hash,
                }
                for each_watched_tx in transactions
            ]
        )


@operation
def list_watched(
    chain_id: str, watcher: ReorgWatcher = ReorgWatcher.SETTLER
) -> Op[list[WatchedTransaction]]:
    """Return the watched transactions."""
    return (yield from _WATCHED.all(chain=chain_id, by=watcher))


@operation
def forget(chain_id: str, watcher: ReorgWatcher, below: int) -> Op[None]:
    """Stop watching transactions in older blocks."""
    yield _FORGET(chain=chain_id, by=watcher, number=below)


@operation
def find_affected(
    chain_id: str, hashes: Collection[str], senders: Collection[str]
) -> Op[AffectedItems]:
    """Return the payments that transactions ended, and the keys' own transactions; a full scan."""
    paid = yield from _PAID_BY.all(chain=chain_id, hashes=hashes)
    ours = yield from _ENDED.all(chain=chain_id, hashes=hashes, senders=senders)
    return paid, ours


@operation
def undo_settlements(
    chain_id: str, hashes: Collection[str], affected_items: AffectedItems, now_us: int
) -> Op[list[str]]:
    """Reverse what vanished transactions ended; return the payments.

    Our transactions are open again, and payments by others wait for settlement. Transactions that
    are not watched (any more) are left alone, so that nothing is reversed twice. Money that they
    moved home from payments' addresses is looked for again.
    """
    gone = yield from _UNWATCH.all(chain=chain_id, by=ReorgWatcher.SETTLER, hashes=hashes)
    if not gone:
        return []
    payment_ids, tx_ids = affected_items
    held_moneys = yield from held_money.lock_by_transactions(chain_id, hashes)
    # released money is booked only if Florin moved it
    released = {money.payment_id for money in held_moneys if money.state is HeldMoneyState.RELEASED}
    undone = []
    for payment_id in payment_ids:
        key, missing_ok = journals.settle_key(payment_id), payment_id in released
        if (yield from ledger.reverse(key, now_us, missing_ok=missing_ok)):
            undone.append(payment_id)
    waiting_ids, failed_ids = yield from _undo_held_money(held_moneys, now_us)
    undone += [waiting_id for waiting_id in waiting_ids if waiting_id not in undone]
    yield from effects.forget({*payment_ids, *undone, *failed_ids})
    reopened = [tx.id for tx in (yield from _REOPEN.all(ids=tx_ids))]
    for tx_id in reopened:
        yield from _undo_cost(tx_id, now_us)
    reopened_payment_ids = set((yield from _HELD.all(ids=reopened)))
    yield _BACK(
        ids=[undone_id for undone_id in undone if undone_id in reopened_payment_ids],
        next_state=ConfirmationState.SUBMITTED,
    )
    yield _BACK(
        ids=[undone_id for undone_id in undone if undone_id not in reopened_payment_ids],
        next_state=ConfirmationState.WAITING,
    )
    first_block = min(tx.block_number for tx in gone)
    strays = yield from address_sweeps.undo(chain_id, hashes, first_block, now_us)
    stray_ids = {money.payment_id for money in strays}.difference(undone, failed_ids)
    return undone + failed_ids + sorted(stray_ids)


def _undo_cost(tx_id: str, now_us: int) -> Op[None]:
    # a transaction without cost was not booked
    yield from ledger.reverse(journals.gas_key(tx_id), now_us, missing_ok=True)


def _undo_held_money(
    held_moneys: Sequence[HeldMoney], now_us: int
) -> Op[tuple[list[str], list[str]]]:
    """Reverse the arrival of blocked payers' money; return the affected payments.

    The first list waits for the money again; the second had failed by a decision about it.

    A pending return is cancelled, unless it is already on its way. If the money for a failed
    payment arrives after all, it is late.
    """
    waiting_ids: list[str] = []
    failed_ids: list[str] = []
    for money in held_moneys:
        # it may have been undone before, and its payment settled by other money since
        missing_ok = money.state in {HeldMoneyState.RELEASED, HeldMoneyState.UNDONE}
        yield from ledger.reverse(
            held_money.format_journal_key(money), now_us, missing_ok=missing_ok
        )
        waits = money.state in {HeldMoneyState.HELD, HeldMoneyState.RELEASED}
        (waiting_ids if waits else failed_ids).append(money.payment_id)
        if money.payout_id and not (yield from payouts.refuse(money.payout_id, now_us)):
            yield from held_money.mark_undone(money)
        elif money.state is not HeldMoneyState.RELEASED:
            yield from held_money.forget(money)
    return waiting_ids, failed_ids


@operation
def undo_payouts(
    chain_id: str, hashes: Collection[str], affected_items: AffectedItems, now_us: int
) -> Op[list[str]]:
    """Reverse what vanished transactions of a treasury ended; return the payouts.

    The transactions are open again. A transaction whose payout has since used another transaction
    stays as it is, because sending it again must not pay a second time.
    """
    if not (yield from _UNWATCH.any(chain=chain_id, by=ReorgWatcher.PAYOUTS, hashes=hashes)):
        return []
    payout_ids_by_tx: dict[str, list[str]] = {tx_id: [] for tx_id in affected_items[1]}
    for tx_id, payout_id in (yield from _PAYOUTS.all(ids=list(payout_ids_by_tx))):
        payout_ids_by_tx[tx_id].append(payout_id)
    payouts_by_id = yield from payouts.lock(
        [payout_id for payout_ids in payout_ids_by_tx.values() for payout_id in payout_ids]
    )
    undone = []
    for tx_id, payout_ids in payout_ids_by_tx.items():
        tx_payouts = [payouts_by_id[payout_id] for payout_id in payout_ids]
        if not all(_is_paid_by(tx_payout, hashes) for tx_payout in tx_payouts):
            continue
        for _, tx_hash in (yield from _REOPEN.all(ids=[tx_id])):
            yield from _undo_cost(tx_id, now_us)
            for payout in tx_payouts:
                yield from payouts.reopen(payout, tx_hash, now_us)
                undone.append(payout.id)
    return undone


def _is_paid_by(payout: Payout, hashes: Collection[str]) -> bool:
    """Return True if one of the transactions has the payout, or none has since one failed."""
    return payout.tx_id in hashes if payout.status is not PayoutStatus.WAITING else True
