"""Search of a partner's payments by what a buyer or a merchant has at hand.

Every query follows an index or reads a limited number of the newest payments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import select, text

from florin_server.db.engine.columns import sortable_amount
from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.engine.sums import SortableAmount
from florin_server.db.tables.payments import HAS_PAYER_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_item_table,
    chain_tx_table,
    payment_table,
    payout_table,
)

_OF_PARTNER = (
    payment_table.c.partner_id == param("partner_id"),
    payment_table.c.live == param("live"),
)
_BY_ID = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("id"), *_OF_PARTNER), str
)
_BY_PAYER = Statement(
    select(payment_table.c.id)
    .where(*_OF_PARTNER, text(HAS_PAYER_PREDICATE), payment_table.c.payer == param("payer"))
    .order_by(payment_table.c.id.desc())
    .limit(param("limit")),
    str,
)
_BY_VALUE = Statement(
    select(payment_table.c.id)
    .where(
        *_OF_PARTNER,
        sortable_amount(payment_table.c.value) == param("value", SortableAmount),
        is_in(payment_table.c.unit, "units"),
    )
    .order_by(payment_table.c.id.desc())
    .limit(param("limit")),
    str,
)
# transactions of ours: settlements of payments, and payouts for them
_SENT = (chain_tx_table.c.chain_id == param("chain_id"), chain_tx_table.c.hash == param("hash"))
_BY_SETTLEMENT = Statement(
    select(payment_table.c.id)
    .join_from(
        chain_tx_table, chain_tx_item_table, chain_tx_item_table.c.tx_id == chain_tx_table.c.id
    )
    .join(payment_table, payment_table.c.id == chain_tx_item_table.c.payment_id)
    .where(*_SENT, *_OF_PARTNER)
    .limit(param("limit")),
    str,
)
_BY_PAYOUT = Statement(
    select(payment_table.c.id)
    .join_from(
        chain_tx_table, chain_tx_item_table, chain_tx_item_table.c.tx_id == chain_tx_table.c.id
    )
    .join(payout_table, payout_table.c.id == chain_tx_item_table.c.payout_id)
    .join(payment_table, payment_table.c.id == payout_table.c.payment_id)
    .where(*_SENT, *_OF_PARTNER)
    .limit(param("limit")),
    str,
)
_newest = (
    select(payment_table.c.id, payment_table.c.reference_id, payment_table.c.tx_id)
    .where(*_OF_PARTNER)
    .order_by(payment_table.c.id.desc())
    .limit(param("newest"))
    .subquery()
)
_BY_TEXT = Statement(
    select(_newest.c.id)
    .where((_newest.c.reference_id == param("text")) | (_newest.c.tx_id == param("hash")))
    .order_by(_newest.c.id.desc())
    .limit(param("limit")),
    str,
)


@operation
def find_ids(
    partner_id: str,
    *,
    live: bool,
    payment_id: str,
    text: str,
    tx_hash: str,
    chain_ids: Collection[str],
    payers: Collection[str],
    values: Mapping[int, Collection[str]],
    newest: int,
    limit: int,
) -> Op[list[str]]:
    """Return payments of a partner that a text names, the newest first, at most `limit`.

    `payers` are the accounts that the text can mean, `values` the minor units with the units in
    which they can be. References and transactions of buyers are searched among the `newest`.
    """
    scope = {"partner_id": partner_id, "live": live, "limit": limit}
    ids = set((yield from _BY_ID.all(**scope, id=payment_id)))
    for payer in payers:
        ids |= set((yield from _BY_PAYER.all(**scope, payer=payer)))
    for value, units in values.items():
        ids |= set((yield from _BY_VALUE.all(**scope, value=value, units=units)))
    for chain_id in chain_ids:
        sent = {**scope, "chain_id": chain_id, "hash": tx_hash}
        ids |= set((yield from _BY_SETTLEMENT.all(**sent)))
        ids |= set((yield from _BY_PAYOUT.all(**sent)))
    ids |= set((yield from _BY_TEXT.all(**scope, text=text, hash=tx_hash, newest=newest)))
    return sorted(ids, reverse=True)[:limit]
