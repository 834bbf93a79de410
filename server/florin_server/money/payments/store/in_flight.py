"""The open work on a chain, which would be lost with the chain."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import distinct, func, select, text

from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.tables.held_money import UNRESOLVED_PREDICATE
from florin_server.db.tables.payments import UNCONFIRMED_PREDICATE, UNSETTLED_PREDICATE
from florin_server.db.tables.payouts import OWED_PREDICATE
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_table,
    confirmation_table,
    held_money_table,
    payment_option_table,
    payment_table,
    payout_table,
)

_OFFERED = Statement(
    select(func.count(distinct(payment_table.c.id)))
    .join_from(
        payment_table, payment_option_table, payment_option_table.c.payment_id == payment_table.c.id
    )
    .where(text(UNCONFIRMED_PREDICATE), payment_option_table.c.chain_id == param("chain_id")),
    int,
)
_CONFIRMED = Statement(
    select(func.count())
    .select_from(confirmation_table)
    .where(text(UNSETTLED_PREDICATE), confirmation_table.c.chain_id == param("chain_id")),
    int,
)
_SENT = Statement(
    select(func.count())
    .select_from(chain_tx_table)
    .where(text(OPEN_TX_PREDICATE), chain_tx_table.c.chain_id == param("chain_id")),
    int,
)
_OWED = Statement(
    select(func.count())
    .select_from(payout_table)
    .where(text(OWED_PREDICATE), payout_table.c.chain_id == param("chain_id")),
    int,
)

_HELD = Statement(
    select(func.count())
    .select_from(held_money_table)
    .where(text(UNRESOLVED_PREDICATE), held_money_table.c.chain_id == param("chain_id")),
    int,
)


@dataclass(frozen=True, slots=True)
class InFlightCounts:
    """The number of open items of each kind.

    Offered payments that can still be paid there, confirmed payments, our transactions that are in
    no final block, payouts that are owed, and held money.
    """

    offered_payments: int
    confirmed_payments: int
    transactions: int
    payouts: int
    held_money: int


@operation
def count_in_flight(chain_id: str) -> Op[InFlightCounts]:
    """Count the open work on a chain (CAIP-2)."""
    return InFlightCounts(
        offered_payments=(yield from _OFFERED.single(chain_id=chain_id)),
        confirmed_payments=(yield from _CONFIRMED.single(chain_id=chain_id)),
        transactions=(yield from _SENT.single(chain_id=chain_id)),
        payouts=(yield from _OWED.single(chain_id=chain_id)),
        held_money=(yield from _HELD.single(chain_id=chain_id)),
    )
