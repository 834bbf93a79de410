"""The newest final transactions of a sender, and their cost from the books."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from sqlalchemy import func, select, text

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.settlement import FINAL_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_item_table,
    chain_tx_table,
    ledger_transfer_table,
)
from florin_server.domain.ledger import accounts, journals
from florin_server.domain.settlement.runway import PaidTransaction


class _FinalTransaction(NamedTuple):
    id: str
    created_at_us: int


class _ItemCount(NamedTuple):
    tx_id: str
    number: int


class _Cost(NamedTuple):
    idem_key: str
    debit: str
    credit: str
    amount: int


_NEWEST = Statement(
    select(chain_tx_table.c.id, chain_tx_table.c.created_at_us)
    .where(
        text(FINAL_TX_PREDICATE),
        chain_tx_table.c.chain_id == param("chain_id"),
        chain_tx_table.c.sender == param("sender"),
    )
    .order_by(chain_tx_table.c.created_at_us.desc())
    .limit(param("limit")),
    _FinalTransaction,
)
_ITEMS = Statement(
    select(chain_tx_item_table.c.tx_id, func.count().label("number"))
    .where(is_in(chain_tx_item_table.c.tx_id, "ids"))
    .group_by(chain_tx_item_table.c.tx_id),
    _ItemCount,
)
_COSTS = Statement(
    select(
        ledger_transfer_table.c.idem_key,
        ledger_transfer_table.c.debit,
        ledger_transfer_table.c.credit,
        ledger_transfer_table.c.amount,
    ).where(is_in(ledger_transfer_table.c.idem_key, "keys")),
    _Cost,
)


@operation
def list_paid_transactions(
    chain_id: str, sender: str, wallet: str, limit: int
) -> Op[list[PaidTransaction]]:
    """Return a sender's newest final transactions, with their cost for a wallet (CAIP-10)."""
    newest = yield from _NEWEST.all(chain_id=chain_id, sender=sender, limit=limit)
    if not newest:
        return []
    counts = dict((yield from _ITEMS.all(ids=[tx.id for tx in newest])))
    costs: Counter[str] = Counter()
    payer = accounts.wallet(wallet)
    for cost in (yield from _COSTS.all(keys=[journals.gas_key(tx.id) for tx in newest])):
        if payer in {cost.debit, cost.credit}:
            costs[cost.idem_key] += cost.amount if cost.credit == payer else -cost.amount
    return [
        PaidTransaction(tx.created_at_us, counts.get(tx.id, 0), costs[journals.gas_key(tx.id)])
        for tx in newest
    ]
