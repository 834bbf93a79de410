"""Refunds: at most one for each payment, paid out in the order in which they were asked for."""

from __future__ import annotations

from sqlalchemy import select

from florin_server.domain.payments.payment import Refund
from florin_server.store.engine.query import Op, Statement, insert, operation, param
from florin_server.store.tables.tables import refund as refund_table

_CREATE = Statement(insert(refund_table).on_conflict_do_nothing().returning(refund_table.c.id))
_OF_PAYMENT = Statement(
    select(refund_table).where(refund_table.c.payment_id == param("payment_id"))
)


@operation
def create(new: Refund) -> Op[bool]:
    """Stores a refund; False if its payment has one already."""
    return bool((yield _CREATE.of(new)))


@operation
def refund(payment_id: str) -> Op[Refund | None]:
    """The refund of a payment."""
    rows = yield _OF_PAYMENT(payment_id=payment_id)
    return Refund(*rows[0]) if rows else None
