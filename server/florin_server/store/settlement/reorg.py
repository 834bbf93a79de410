"""What a reorganisation undoes that is deeper than what counts as final.

What ended something is watched for a while longer. When its block is gone, the books take it back
by opposite entries, and settling begins again with the same authorization and the same bytes. The
status of a payment never changes, nor that of a refund.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, null, select, update

from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Status
from florin_server.domain.payouts.held_money import HeldMoney, HeldState
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.quarantine import ItemKind
from florin_server.domain.settlement.chain_txs import TxState, Watched, Watcher
from florin_server.domain.settlement.state import TRANSACTION, TxEvent
from florin_server.store.engine.query import Op, Statement, any_of, one_of, operation, param, upsert
from florin_server.store.ledger import ledger
from florin_server.store.payouts import held_money, payouts
from florin_server.store.quarantine.items import is_left_out
from florin_server.store.receipts import effects
from florin_server.store.tables.payments import ConfirmState
from florin_server.store.tables.tables import chain_tx, chain_tx_item, confirm, payment, watched_tx

# payments that transactions paid, and the transactions of ours among these, by id
Ended = tuple[list[str], list[str]]

_WATCH = Statement(upsert(watched_tx, "chain_id", "tx_hash"))
_WATCHED = Statement(
    select(watched_tx.c.tx_hash, watched_tx.c.block_number, watched_tx.c.block_hash).where(
        watched_tx.c.chain_id == param("chain"), watched_tx.c.watcher == param("by")
    )
)
_FORGET = Statement(
    delete(watched_tx).where(
        watched_tx.c.chain_id == param("chain"),
        watched_tx.c.watcher == param("by"),
        watched_tx.c.block_number < param("number"),
        ~is_left_out(ItemKind.WATCHED, watched_tx.c.tx_hash),
    )
)
_UNWATCH = Statement(
    delete(watched_tx)
    .where(
        watched_tx.c.chain_id == param("chain"),
        watched_tx.c.watcher == param("by"),
        any_of(watched_tx.c.tx_hash, "hashes"),
    )
    .returning(watched_tx.c.tx_hash)
)
_PAID_BY = Statement(
    select(payment.c.id)
    .join_from(payment, confirm, confirm.c.payment_id == payment.c.id)
    .where(
        any_of(payment.c.tx_id, "hashes"),
        payment.c.status == Status.SUCCEEDED,
        confirm.c.chain_id == param("chain"),
        confirm.c.state == ConfirmState.DONE,
    )
    .order_by(payment.c.id)
)
_ENDED = Statement(
    select(chain_tx.c.id).where(
        chain_tx.c.chain_id == param("chain"),
        any_of(chain_tx.c.sender, "senders"),
        any_of(func.coalesce(chain_tx.c.final_hash, chain_tx.c.hash), "hashes"),
        chain_tx.c.state == TxState.FINAL,
    )
)
_REOPEN = Statement(
    update(chain_tx)
    .where(
        any_of(chain_tx.c.id, "ids"),
        one_of(chain_tx.c.state, TRANSACTION.sources(TxEvent.UNDONE)),
    )
    .values(
        state=TRANSACTION.target(TxEvent.UNDONE),
        sent_block=null(),
        block_number=null(),
        block_hash=null(),
        final_hash=null(),
    )
    .returning(chain_tx.c.id, chain_tx.c.hash)
)
_PAYOUTS = Statement(
    select(chain_tx_item.c.tx_id, chain_tx_item.c.payout_id).where(
        any_of(chain_tx_item.c.tx_id, "ids"), chain_tx_item.c.payout_id.is_not(None)
    )
)
_HELD = Statement(select(chain_tx_item.c.payment_id).where(any_of(chain_tx_item.c.tx_id, "ids")))
_BACK = Statement(
    update(confirm)
    .where(
        any_of(confirm.c.payment_id, "ids"),
        (confirm.c.state == ConfirmState.DONE) | (confirm.c.state == ConfirmState.HELD),
    )
    .values(state=param("next_state"), retry_at_us=0)
)


@operation
def watch(chain_id: str, by: Watcher, ended: Sequence[Watched]) -> Op[None]:
    """Part of an operation: watches transactions from now on."""
    if ended:
        yield _WATCH.many(
            [
                {
                    "chain_id": chain_id,
                    "tx_hash": one.tx_hash,
                    "watcher": by,
                    "block_number": one.block_number,
                    "block_hash": one.block_hash,
                }
                for one in ended
            ]
        )


@operation
def watched(chain_id: str, by: Watcher = Watcher.SETTLER) -> Op[list[Watched]]:
    """The transactions that are watched."""
    return [Watched(*row) for row in (yield _WATCHED(chain=chain_id, by=by))]


@operation
def forget(chain_id: str, by: Watcher, below: int) -> Op[None]:
    """Watches what is in older blocks no longer."""
    yield _FORGET(chain=chain_id, by=by, number=below)


@operation
def ended_by(chain_id: str, hashes: Collection[str], senders: Collection[str]) -> Op[Ended]:
    """The payments that ended by transactions, and the keys' own among these; looks at all rows."""
    paid = [row[0] for row in (yield _PAID_BY(chain=chain_id, hashes=hashes))]
    ours = [row[0] for row in (yield _ENDED(chain=chain_id, hashes=hashes, senders=senders))]
    return paid, ours


@operation
def undo_settled(
    chain_id: str, hashes: Collection[str], ended: Ended, now_us: int
) -> Op[list[str]]:
    """Takes back what transactions ended that are gone; answers the payments.

    Their transactions are open again, and payments of others wait to be settled. What is not
    watched (any more) is left alone, so that nothing is taken back twice.
    """
    if not (yield _UNWATCH(chain=chain_id, by=Watcher.SETTLER, hashes=hashes)):
        return []
    payment_ids, tx_ids = ended
    brought = yield from held_money.brought_by(chain_id, hashes)
    # what was released is booked only if we had a part in it
    released = {one.payment_id for one in brought if one.state is HeldState.RELEASED}
    undone = []
    for one in payment_ids:
        key, unsure = journals.settle(one), one in released
        if (yield from ledger.reverse(key, now_us, missing_ok=unsure)):
            undone.append(one)
    again, over = yield from _undo_held(brought, now_us)
    undone += [one for one in again if one not in undone]
    yield from effects.forget({*payment_ids, *undone, *over})
    reopened = [row[0] for row in (yield _REOPEN(ids=tx_ids))]
    for tx_id in reopened:
        yield from _undo_cost(tx_id, now_us)
    held = {row[0] for row in (yield _HELD(ids=reopened))}
    yield _BACK(ids=[one for one in undone if one in held], next_state=ConfirmState.SUBMITTED)
    yield _BACK(ids=[one for one in undone if one not in held], next_state=ConfirmState.WAITING)
    return undone + over


def _undo_cost(tx_id: str, now_us: int) -> Op[None]:
    # one that cost nothing was not booked
    yield from ledger.reverse(journals.gas(tx_id), now_us, missing_ok=True)


def _undo_held(brought: Sequence[HeldMoney], now_us: int) -> Op[tuple[list[str], list[str]]]:
    """Takes back that money of blocked payers came, and tells of which payments.

    The first of them wait for it again, the others had failed by a verdict about it.

    What was to be returned is not, unless it is on its way already. If money comes after all for a
    payment that has failed, it comes late.
    """
    again: list[str] = []
    over: list[str] = []
    for one in brought:
        # it may have been undone before, and its payment settled by something else since
        unsure = one.state in {HeldState.RELEASED, HeldState.UNDONE}
        yield from ledger.reverse(held_money.key_of(one), now_us, missing_ok=unsure)
        waits = one.state in {HeldState.HELD, HeldState.RELEASED}
        (again if waits else over).append(one.payment_id)
        if one.payout_id and not (yield from payouts.refuse(one.payout_id, now_us)):
            yield from held_money.undone(one)
        elif one.state is not HeldState.RELEASED:
            yield from held_money.forget(one)
    return again, over


@operation
def undo_paid_out(
    chain_id: str, hashes: Collection[str], ended: Ended, now_us: int
) -> Op[list[str]]:
    """Takes back what transactions of a treasury ended that are gone; answers the payouts.

    Their transactions are open again. One whose payout has gone on without it stays as it is, for
    what is sent again must not pay a second time.
    """
    if not (yield _UNWATCH(chain=chain_id, by=Watcher.PAYOUTS, hashes=hashes)):
        return []
    items: dict[str, list[str]] = {tx_id: [] for tx_id in ended[1]}
    for tx_id, payout_id in (yield _PAYOUTS(ids=list(items))):
        items[tx_id].append(payout_id)
    found = yield from payouts.lock([one for held in items.values() for one in held])
    undone = []
    for tx_id, held in items.items():
        subjects = [found[one] for one in held]
        if not all(_is_by(one, hashes) for one in subjects):
            continue
        for _, tx_hash in (yield _REOPEN(ids=[tx_id])):
            yield from _undo_cost(tx_id, now_us)
            for one in subjects:
                yield from payouts.reopen(one, tx_hash, now_us)
                undone.append(one.id)
    return undone


def _is_by(one: Payout, hashes: Collection[str]) -> bool:
    """True if a payout is in one of the transactions, or in none since one of them failed."""
    return one.tx_id in hashes if one.status is not PayoutStatus.WAITING else True
