"""What a reorganisation undoes that is deeper than what counts as final.

What ended something is watched for a while longer. When its block is gone, the books take it back
by opposite entries, and settling begins again with the same authorization and the same bytes. The
status of a payment never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, null, select, update

from florin_server.domain.journal import TxState, Watched
from florin_server.domain.payment import Status
from florin_server.store import ledger
from florin_server.store.query import Op, Statement, any_of, param, upsert
from florin_server.store.tables import (
    ConfirmState,
    chain_tx,
    chain_tx_item,
    confirm,
    payment,
    watched_tx,
)

# payments that transactions paid, and the transactions of ours among these, by id
Ended = tuple[list[str], list[str]]

_WATCH = Statement(upsert(watched_tx, "chain_id", "tx_hash"))
_WATCHED = Statement(
    select(watched_tx.c.tx_hash, watched_tx.c.block_number, watched_tx.c.block_hash).where(
        watched_tx.c.chain_id == param("chain")
    )
)
_FORGET = Statement(
    delete(watched_tx).where(
        watched_tx.c.chain_id == param("chain"), watched_tx.c.block_number < param("number")
    )
)
_UNWATCH = Statement(
    delete(watched_tx)
    .where(watched_tx.c.chain_id == param("chain"), any_of(watched_tx.c.tx_hash, "hashes"))
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
    .where(any_of(chain_tx.c.id, "ids"), chain_tx.c.state == TxState.FINAL)
    .values(
        state=TxState.SIGNED,
        sent_block=null(),
        block_number=null(),
        block_hash=null(),
        final_hash=null(),
    )
    .returning(chain_tx.c.id)
)
_HELD = Statement(select(chain_tx_item.c.payment_id).where(any_of(chain_tx_item.c.tx_id, "ids")))
_BACK = Statement(
    update(confirm)
    .where(any_of(confirm.c.payment_id, "ids"), confirm.c.state == ConfirmState.DONE)
    .values(state=param("next_state"), retry_at_us=0)
)


def watch(chain_id: str, ended: Sequence[Watched]) -> Op[None]:
    """Part of an operation: watches transactions from now on."""
    if ended:
        yield _WATCH.many(
            [
                {
                    "chain_id": chain_id,
                    "tx_hash": one.tx_hash,
                    "block_number": one.block_number,
                    "block_hash": one.block_hash,
                }
                for one in ended
            ]
        )


def watched(chain_id: str) -> Op[list[Watched]]:
    """The transactions that are watched."""
    return [Watched(*row) for row in (yield _WATCHED(chain=chain_id))]


def forget(chain_id: str, below: int) -> Op[None]:
    """Watches what is in older blocks no longer."""
    yield _FORGET(chain=chain_id, number=below)


def ended_by(chain_id: str, hashes: Collection[str], senders: Collection[str]) -> Op[Ended]:
    """The payments that ended by transactions, and the keys' own among these; looks at all rows."""
    paid = [row[0] for row in (yield _PAID_BY(chain=chain_id, hashes=hashes))]
    ours = [row[0] for row in (yield _ENDED(chain=chain_id, hashes=hashes, senders=senders))]
    return paid, ours


def undo(chain_id: str, hashes: Collection[str], ended: Ended, now_us: int) -> Op[list[str]]:
    """Takes back what transactions ended that are gone; answers the payments.

    Their transactions are open again, and payments of others wait to be settled. What is not
    watched (any more) is left alone, so that nothing is taken back twice.
    """
    if not (yield _UNWATCH(chain=chain_id, hashes=hashes)):
        return []
    payment_ids, tx_ids = ended
    undone = []
    for one in payment_ids:
        if (yield from ledger.reverse(f"settle:{one}", now_us)):
            undone.append(one)  # noqa: PERF401  (an operation's steps)
    reopened = [row[0] for row in (yield _REOPEN(ids=tx_ids))]
    for tx_id in reopened:
        yield from ledger.reverse(f"gas:{tx_id}", now_us)
    held = {row[0] for row in (yield _HELD(ids=reopened))}
    yield _BACK(ids=[one for one in undone if one in held], next_state=ConfirmState.SUBMITTED)
    yield _BACK(ids=[one for one in undone if one not in held], next_state=ConfirmState.WAITING)
    return undone
