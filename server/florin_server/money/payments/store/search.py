"""Search of a partner's payments by what a buyer or a merchant has at hand.

Every query follows an index over all payments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Text, TextClause, func, select, text

from florin_server.db.engine.columns import sortable_amount
from florin_server.db.engine.query import Op, Params, Statement, is_in, operation, param
from florin_server.db.engine.sums import SortableAmount
from florin_server.db.tables.payments import (
    HAS_PAYER_PREDICATE,
    HAS_TX_PREDICATE,
    TX_OUTPUT_PREDICATE,
)
from florin_server.db.tables.payouts import SENT_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_bump_table,
    chain_tx_item_table,
    chain_tx_table,
    confirmation_table,
    held_money_table,
    payment_settled_table,
    payment_table,
    payout_table,
    refund_table,
)

# payments of one amount that are read for those in the right currency
_SAME_AMOUNT_MAX = 10_000
_OF_PARTNER = (
    payment_table.c.partner_id == param("partner_id"),
    payment_table.c.live == param("live"),
)


def _select_ids(*conditions: ColumnElement[bool] | TextClause) -> Statement[str]:
    """Select the newest payments of the partner."""
    return Statement(
        select(payment_table.c.id)
        .where(*_OF_PARTNER, *conditions)
        .order_by(payment_table.c.id.desc())
        .limit(param("limit")),
        str,
    )


_BY_ID = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("id"), *_OF_PARTNER), str
)
_BY_REFERENCE = _select_ids(payment_table.c.reference_id == param("text"))
_BY_PAYER = _select_ids(text(HAS_PAYER_PREDICATE), payment_table.c.payer == param("payer"))
_same_amount = (
    select(payment_table.c.id, payment_table.c.unit)
    .where(*_OF_PARTNER, sortable_amount(payment_table.c.value) == param("value", SortableAmount))
    .order_by(payment_table.c.id.desc())
    .limit(_SAME_AMOUNT_MAX)
    .subquery()
)
_BY_VALUE = Statement(
    select(_same_amount.c.id)
    .where(is_in(_same_amount.c.unit, "units"))
    .order_by(_same_amount.c.id.desc())
    .limit(param("limit")),
    str,
)
# transactions of ours, and each variant of them that was signed for a higher fee
_SENT = Statement(
    select(chain_tx_table.c.id).where(
        is_in(chain_tx_table.c.chain_id, "chain_ids"), chain_tx_table.c.hash == param("hash")
    ),
    str,
)
_RAISED = Statement(
    select(chain_tx_bump_table.c.tx_id)
    .where(chain_tx_bump_table.c.hash == param("hash"))
    .limit(param("limit")),
    str,
)
_OF_TXS = is_in(chain_tx_item_table.c.tx_id, "tx_ids")
_BY_SETTLEMENT = Statement(
    select(payment_table.c.id)
    .join_from(
        chain_tx_item_table, payment_table, payment_table.c.id == chain_tx_item_table.c.payment_id
    )
    .where(_OF_TXS, *_OF_PARTNER)
    .limit(param("limit")),
    str,
)
_BY_PAYOUT = Statement(
    select(payment_table.c.id)
    .join_from(
        chain_tx_item_table, payout_table, payout_table.c.id == chain_tx_item_table.c.payout_id
    )
    .join(payment_table, payment_table.c.id == payout_table.c.payment_id)
    .where(_OF_TXS, *_OF_PARTNER)
    .limit(param("limit")),
    str,
)
# transactions that buyers sent, and those of test payments
_BY_TX = Statement(
    select(payment_table.c.id)
    .where(text(HAS_TX_PREDICATE), payment_table.c.tx_id == param("hash"), *_OF_PARTNER)
    .limit(param("limit")),
    str,
)
_BY_CONFIRMATION = Statement(
    select(payment_table.c.id)
    .join_from(
        confirmation_table, payment_table, payment_table.c.id == confirmation_table.c.payment_id
    )
    .where(
        text(TX_OUTPUT_PREDICATE),
        func.lower(confirmation_table.c.outputs, type_=Text()) == param("output"),
        *_OF_PARTNER,
    )
    .limit(param("limit")),
    str,
)
_BY_REFUND = Statement(
    select(payment_table.c.id)
    # the predicate of the index names a column that both tables have
    .where(
        payment_table.c.id.in_(
            select(refund_table.c.payment_id).where(
                text(SENT_PREDICATE), refund_table.c.tx_id == param("hash")
            )
        ),
        *_OF_PARTNER,
    )
    .limit(param("limit")),
    str,
)
_BY_PAYOUT_OF_BALANCE = Statement(
    select(payment_settled_table.c.payment_id)
    .where(
        text(SENT_PREDICATE),
        payment_settled_table.c.partner_id == param("partner_id"),
        payment_settled_table.c.live == param("live"),
        payment_settled_table.c.tx_id == param("hash"),
    )
    .order_by(payment_settled_table.c.payment_id.desc())
    .limit(param("limit")),
    str,
)
_BY_HELD_MONEY = Statement(
    select(payment_table.c.id)
    .join_from(held_money_table, payment_table, payment_table.c.id == held_money_table.c.payment_id)
    .where(
        is_in(held_money_table.c.chain_id, "chain_ids"),
        held_money_table.c.tx_hash == param("hash"),
        *_OF_PARTNER,
    )
    .limit(param("limit")),
    str,
)


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """Possible meanings of a text.

    `payment_id` is the id in a link, or the text. `tx_hash` is a transaction as chains write it,
    and empty if the text cannot be one; `tx_output` is the stored form of a buyer's confirmation
    with it. `payers` are accounts, `values` minor units with the units in which they can be.
    """

    text: str
    payment_id: str
    tx_hash: str = ""
    tx_output: str = ""
    chain_ids: Sequence[str] = ()
    payers: Collection[str] = ()
    values: Mapping[int, Collection[str]] | None = None


@operation
def find_ids(partner_id: str, terms: SearchTerms, *, live: bool, limit: int) -> Op[list[str]]:
    """Return payments of a partner that a text names, the newest first, at most `limit`."""
    scope = {"partner_id": partner_id, "live": live, "limit": limit}
    ids = set((yield from _BY_ID.all(**scope, id=terms.payment_id)))
    ids |= set((yield from _BY_REFERENCE.all(**scope, text=terms.text)))
    for payer in terms.payers:
        ids |= set((yield from _BY_PAYER.all(**scope, payer=payer)))
    for value, units in (terms.values or {}).items():
        ids |= set((yield from _BY_VALUE.all(**scope, value=value, units=units)))
    if terms.tx_hash:
        ids |= yield from _find_by_transaction(scope, terms)
    return sorted(ids, reverse=True)[:limit]


def _find_by_transaction(scope: Params, terms: SearchTerms) -> Op[set[str]]:
    """Return payments that a transaction paid, settled, refunded or was confirmed with."""
    sent = {**scope, "hash": terms.tx_hash}
    ids = set((yield from _BY_TX.all(**sent)))
    ids |= set((yield from _BY_CONFIRMATION.all(**scope, output=terms.tx_output)))
    ids |= set((yield from _BY_REFUND.all(**sent)))
    ids |= set((yield from _BY_PAYOUT_OF_BALANCE.all(**sent)))
    ids |= set((yield from _BY_HELD_MONEY.all(**sent, chain_ids=terms.chain_ids)))
    tx_ids = yield from _SENT.all(chain_ids=terms.chain_ids, hash=terms.tx_hash)
    tx_ids += yield from _RAISED.all(hash=terms.tx_hash, limit=scope["limit"])
    if tx_ids:
        ids |= set((yield from _BY_SETTLEMENT.all(**scope, tx_ids=tx_ids)))
        ids |= set((yield from _BY_PAYOUT.all(**scope, tx_ids=tx_ids)))
    return ids
