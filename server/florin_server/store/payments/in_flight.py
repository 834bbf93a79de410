"""What is still under way on a chain, and would be forgotten with it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import distinct, func, select, text

from florin_server.store.engine.query import Op, Statement, operation, param
from florin_server.store.tables.held_money import OURS_TO_ANSWER_FOR
from florin_server.store.tables.payments import UNCONFIRMED, UNSETTLED
from florin_server.store.tables.payouts import OWED
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import (
    chain_tx,
    confirm,
    held_money,
    payment,
    payment_option,
    payout,
)

_OFFERED = Statement(
    select(func.count(distinct(payment.c.id)))
    .join_from(payment, payment_option, payment_option.c.payment_id == payment.c.id)
    .where(text(UNCONFIRMED), payment_option.c.chain_id == param("chain_id"))
)
_CONFIRMED = Statement(
    select(func.count())
    .select_from(confirm)
    .where(text(UNSETTLED), confirm.c.chain_id == param("chain_id"))
)
_SENT = Statement(
    select(func.count())
    .select_from(chain_tx)
    .where(text(OPEN), chain_tx.c.chain_id == param("chain_id"))
)
_OWED = Statement(
    select(func.count())
    .select_from(payout)
    .where(text(OWED), payout.c.chain_id == param("chain_id"))
)

_HELD = Statement(
    select(func.count())
    .select_from(held_money)
    .where(text(OURS_TO_ANSWER_FOR), held_money.c.chain_id == param("chain_id"))
)


@dataclass(frozen=True, slots=True)
class InFlight:
    """How much there is of each.

    Payments that were offered there and may yet be paid, those that were confirmed, our own
    transactions that are in no final block, payouts that are owed, and held money.
    """

    offered: int
    confirmed: int
    transactions: int
    payouts: int
    held: int


@operation
def in_flight(chain_id: str) -> Op[InFlight]:
    """Counts what is under way on a chain (CAIP-2)."""
    counts = []
    for statement in (_OFFERED, _CONFIRMED, _SENT, _OWED, _HELD):
        ((count,),) = yield statement(chain_id=chain_id)
        counts.append(int(count))
    return InFlight(*counts)
