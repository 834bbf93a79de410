"""Our transactions as rows: each with its items, their gas shares, and its variants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select

from florin_server.db.engine.query import Op, Params, Statement, is_in, operation
from florin_server.db.tables.tables import chain_tx_bump, chain_tx_item
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    PayerKind,
    TransactionVariant,
    TxState,
)


class TransactionRow(NamedTuple):
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


_BUMPS = Statement(
    select(chain_tx_bump.c.tx_id, chain_tx_bump.c.raw, chain_tx_bump.c.hash)
    .where(is_in(chain_tx_bump.c.tx_id, "ids"))
    .order_by(chain_tx_bump.c.tx_id, chain_tx_bump.c.n),
    _Variant,
    variant=TransactionVariant,
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
    .order_by(chain_tx_item.c.tx_id, chain_tx_item.c.n),
    _Item,
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
def load_transactions(rows: Sequence[TransactionRow]) -> Op[list[ChainTx]]:
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
