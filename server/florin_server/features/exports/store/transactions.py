"""The export of our transactions, their items, and their blocks."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, func, select

from florin_server.db.engine.query import (
    Op,
    Row,
    Statement,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.tables import chain_tx, chain_tx_bump, chain_tx_item
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.features.exports.store.roots import ExportSource, index_by_key
from florin_server.features.exports.store.scan import select_last, select_range
from florin_server.features.exports.store.watched import find_watched_blocks

_OPEN = (TxState.SIGNED, TxState.SENT)
_ID, _CHAIN, _STATE, _CREATED, _HASH, _BLOCK = 0, 1, 4, 5, 6, slice(10, 12)
_bumps = (
    select(func.count())
    .select_from(chain_tx_bump)
    .where(chain_tx_bump.c.tx_id == chain_tx.c.id)
    .scalar_subquery()
)


def _select_transactions() -> Select[Row]:
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


_LAST = select_last(chain_tx.c.id)
_RANGE = Statement(
    select_range(_select_transactions(), chain_tx.c.id)
    .where(chain_tx.c.created_at_us > param("since_us"))
    .order_by(chain_tx.c.id)
)
_FIND = Statement(_select_transactions().where(is_in(chain_tx.c.id, "ids")))
_ITEMS = Statement(
    select(
        chain_tx_item.c.tx_id,
        chain_tx_item.c.n,
        chain_tx_item.c.payment_id,
        chain_tx_item.c.payout_id,
        chain_tx_item.c.kind,
        chain_tx_item.c.gas,
    )
    .where(is_in(chain_tx_item.c.tx_id, "ids"))
    .order_by(chain_tx_item.c.tx_id, chain_tx_item.c.n)
)


@operation
def read_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of transactions in id order, which has no meaning."""
    ((last, count),) = yield _LAST(after=after, limit=limit)
    rows = yield _RANGE(after=after, last=last or after, since_us=since_us)
    return ExportPage((yield from _to_roots(rows)), last if count == limit else None)


@operation
def read_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the transactions with the given ids."""
    return (yield from _to_roots((yield _FIND(ids=ids))))


def _to_roots(rows: list[Row]) -> Op[list[ExportRoot]]:
    if not rows:
        return []
    blocks = yield from find_watched_blocks([(row[_CHAIN], row[_HASH]) for row in rows])
    roots = []
    for row in rows:
        closed = row[_STATE] not in _OPEN and row[_HASH] not in blocks
        root = ExportRoot(row[_ID], row[_CREATED], closed, [("transactions", row)])
        if row[_STATE] is TxState.FINAL and row[_BLOCK][1] is not None:
            root.rows.append(("blocks", (row[_CHAIN], *row[_BLOCK])))
        roots.append(root)
    roots_by_key = index_by_key(roots)
    for item in (yield _ITEMS(ids=list(roots_by_key))):
        roots_by_key[item[0]].rows.append(("transaction_items", item))
    return roots


TRANSACTIONS = ExportSource(
    "transactions", ("transactions", "transaction_items", "blocks"), read_page, read_roots
)
