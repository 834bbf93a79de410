"""Our transactions as rows: each with its items, their gas shares, and its variants."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import select

from florin_server.db.engine.query import (
    Op,
    Params,
    Row,
    Statement,
    is_in,
    operation,
)
from florin_server.db.tables.tables import chain_tx, chain_tx_bump, chain_tx_item
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    PayerKind,
    TransactionVariant,
)

_BUMPS = Statement(
    select(chain_tx_bump.c.tx_id, chain_tx_bump.c.raw, chain_tx_bump.c.hash)
    .where(is_in(chain_tx_bump.c.tx_id, "ids"))
    .order_by(chain_tx_bump.c.tx_id, chain_tx_bump.c.n)
)
_ITEMS = Statement(
    select(
        chain_tx_item.c.tx_id,
        chain_tx_item.c.payment_id,
        chain_tx_item.c.payout_id,
        chain_tx_item.c.kind,
        chain_tx_item.c.gas,
    )
    .where(is_in(chain_tx_item.c.tx_id, "ids"))
    .order_by(chain_tx_item.c.tx_id, chain_tx_item.c.n)
)


def to_item_rows(tx: ChainTx) -> list[Params]:
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


@operation
def load_transactions(rows: list[Row]) -> Op[list[ChainTx]]:
    """Return transactions from their rows, with items and variants."""
    if not rows:
        return []
    ids = [row[0] for row in rows]
    settled: dict[str, list[str]] = defaultdict(list)
    payout_ids: dict[str, list[str]] = defaultdict(list)
    shares: dict[str, list[GasShare]] = defaultdict(list)
    for tx_id, payment_id, payout_id, kind, most in (yield _ITEMS(ids=ids)):
        if payment_id is None:
            payout_ids[tx_id].append(payout_id)
        else:
            settled[tx_id].append(payment_id)
        if kind is not None:
            shares[tx_id].append(GasShare(PayerKind(kind), most))
    bumps: dict[str, list[TransactionVariant]] = defaultdict(list)
    for tx_id, *variant in (yield _BUMPS(ids=ids)):
        bumps[tx_id].append(TransactionVariant(*variant))
    names = chain_tx.c.keys()
    return [
        ChainTx(
            **dict(zip(names, row, strict=True)),
            payment_ids=tuple(settled[row[0]]),
            payout_ids=tuple(payout_ids[row[0]]),
            bumps=tuple(bumps[row[0]]),
            gas_shares=tuple(shares[row[0]]),
        )
        for row in rows
    ]
