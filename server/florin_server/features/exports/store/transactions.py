"""The export of our transactions, their items, and their blocks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import chain_tx_bump_table, chain_tx_item_table, chain_tx_table
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.settlement.chain_txs import PayerKind, TxState
from florin_server.features.exports.store.roots import ExportSource, index_by_key
from florin_server.features.exports.store.scan import select_last, select_range
from florin_server.features.exports.store.watched import ExportedBlock, find_watched_blocks

_OPEN = (TxState.SIGNED, TxState.SENT)
_bumps = (
    select(func.count())
    .select_from(chain_tx_bump_table)
    .where(chain_tx_bump_table.c.tx_id == chain_tx_table.c.id)
    .scalar_subquery()
)


def _select_transactions() -> Select[Any]:
    return select(
        chain_tx_table.c.id,
        chain_tx_table.c.chain_id,
        chain_tx_table.c.sender,
        chain_tx_table.c.nonce,
        chain_tx_table.c.state,
        chain_tx_table.c.created_at_us,
        func.coalesce(chain_tx_table.c.final_hash, chain_tx_table.c.hash).label("tx_hash"),
        (1 + _bumps).label("variants"),
        func.length(chain_tx_table.c.raw).label("size"),
        chain_tx_table.c.sent_block,
        chain_tx_table.c.block_number,
        chain_tx_table.c.block_hash,
    )


_LAST = select_last(chain_tx_table.c.id)


class _Transaction(NamedTuple):
    id: str
    chain_id: str
    sender: str
    nonce: int
    state: TxState
    created_at_us: int
    tx_hash: str
    variants: int
    size: int
    sent_block: int | None
    block_number: int | None
    block_hash: str | None


class _Item(NamedTuple):
    tx_id: str
    n: int
    payment_id: str | None
    payout_id: str | None
    kind: PayerKind | None
    gas: int


_RANGE = Statement(
    select_range(_select_transactions(), chain_tx_table.c.id)
    .where(chain_tx_table.c.created_at_us > param("since_us"))
    .order_by(chain_tx_table.c.id),
    _Transaction,
)
_FIND = Statement(_select_transactions().where(is_in(chain_tx_table.c.id, "ids")), _Transaction)
_ITEMS = Statement(
    select(
        chain_tx_item_table.c.tx_id,
        chain_tx_item_table.c.n,
        chain_tx_item_table.c.payment_id,
        chain_tx_item_table.c.payout_id,
        chain_tx_item_table.c.kind,
        chain_tx_item_table.c.gas,
    )
    .where(is_in(chain_tx_item_table.c.tx_id, "ids"))
    .order_by(chain_tx_item_table.c.tx_id, chain_tx_item_table.c.n),
    _Item,
)


@operation
def read_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of transactions in id order, which has no meaning."""
    last, count = yield from _LAST.single(after=after, limit=limit)
    rows = yield from _RANGE.all(after=after, last=last or after, since_us=since_us)
    return ExportPage((yield from _to_roots(rows)), last if count == limit else None)


@operation
def read_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the transactions with the given ids."""
    return (yield from _to_roots((yield from _FIND.all(ids=ids))))


def _to_roots(rows: list[_Transaction]) -> Op[list[ExportRoot]]:
    if not rows:
        return []
    blocks = yield from find_watched_blocks([(row.chain_id, row.tx_hash) for row in rows])
    roots = []
    for row in rows:
        closed = row.state not in _OPEN and row.tx_hash not in blocks
        root = ExportRoot(row.id, row.created_at_us, closed, [("transactions", row)])
        if row.state is TxState.FINAL and row.block_hash is not None:
            block = ExportedBlock(row.chain_id, row.block_number, row.block_hash)
            root.rows.append(("blocks", block))
        roots.append(root)
    roots_by_key = index_by_key(roots)
    for item in (yield from _ITEMS.all(ids=list(roots_by_key))):
        roots_by_key[item.tx_id].rows.append(("transaction_items", item))
    return roots


TRANSACTIONS = ExportSource(
    "transactions", ("transactions", "transaction_items", "blocks"), read_page, read_roots
)
