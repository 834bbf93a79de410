"""Transactions of ours, what they are for, and the blocks that hold them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, func, select

from florin_server.domain.exports.roots import Page, Root
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.store.engine.query import Op, Row, Statement, any_of, operation, param
from florin_server.store.exports.roots import Source, by_key
from florin_server.store.exports.scan import last_of, range_of
from florin_server.store.exports.watched import watched
from florin_server.store.tables.tables import chain_tx, chain_tx_bump, chain_tx_item

_OPEN = (TxState.SIGNED, TxState.SENT)
_ID, _CHAIN, _STATE, _CREATED, _HASH, _BLOCK = 0, 1, 4, 5, 6, slice(10, 12)
_bumps = (
    select(func.count())
    .select_from(chain_tx_bump)
    .where(chain_tx_bump.c.tx_id == chain_tx.c.id)
    .scalar_subquery()
)


def _transactions() -> Select[Row]:
    return select(
        chain_tx.c.id,
        chain_tx.c.chain_id,
        chain_tx.c.sender,
        chain_tx.c.nonce,
        chain_tx.c.state,
        chain_tx.c.created_at_us,
        func.coalesce(chain_tx.c.final_hash, chain_tx.c.hash),
        1 + _bumps,
        func.length(chain_tx.c.raw),
        chain_tx.c.sent_block,
        chain_tx.c.block_number,
        chain_tx.c.block_hash,
    )


_LAST = last_of(chain_tx.c.id)
_RANGE = Statement(
    range_of(_transactions(), chain_tx.c.id)
    .where(chain_tx.c.created_at_us > param("since_us"))
    .order_by(chain_tx.c.id)
)
_SOME = Statement(_transactions().where(any_of(chain_tx.c.id, "ids")))
_ITEMS = Statement(
    select(
        chain_tx_item.c.tx_id,
        chain_tx_item.c.n,
        chain_tx_item.c.payment_id,
        chain_tx_item.c.payout_id,
        chain_tx_item.c.kind,
        chain_tx_item.c.gas,
    )
    .where(any_of(chain_tx_item.c.tx_id, "ids"))
    .order_by(chain_tx_item.c.tx_id, chain_tx_item.c.n)
)


@operation
def pages(after: str, since_us: int, limit: int) -> Op[Page]:
    """Transactions in the order of their ids, which tells nothing."""
    ((last, count),) = yield _LAST(after=after, limit=limit)
    rows = yield _RANGE(after=after, last=last or after, since_us=since_us)
    return Page((yield from _with_all(rows)), last if count == limit else None)


@operation
def some(ids: Collection[str]) -> Op[list[Root]]:
    """Some transactions."""
    return (yield from _with_all((yield _SOME(ids=ids))))


def _with_all(rows: list[Row]) -> Op[list[Root]]:
    if not rows:
        return []
    blocks = yield from watched([(row[_CHAIN], row[_HASH]) for row in rows])
    roots = []
    for row in rows:
        closed = row[_STATE] not in _OPEN and row[_HASH] not in blocks
        root = Root(row[_ID], row[_CREATED], closed, [("transactions", row)])
        if row[_STATE] is TxState.FINAL and row[_BLOCK][1] is not None:
            root.rows.append(("blocks", (row[_CHAIN], *row[_BLOCK])))
        roots.append(root)
    found = by_key(roots)
    for item in (yield _ITEMS(ids=list(found))):
        found[item[0]].rows.append(("transaction_items", item))
    return roots


TRANSACTIONS = Source("transactions", ("transactions", "transaction_items", "blocks"), pages, some)
