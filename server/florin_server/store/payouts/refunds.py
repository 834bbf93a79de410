"""Refunds: at most one for each payment, paid out in the order in which they were asked for."""

from __future__ import annotations

from sqlalchemy import BigInteger, Text, select

from florin_server.domain.payments.payment import Refund
from florin_server.store.engine.query import Op, Statement, insert, operation, param
from florin_server.store.tables.tables import payment, refund_event
from florin_server.store.tables.tables import refund as refund_table
from florin_server.store.webhooks import outbox

_CREATE = Statement(insert(refund_table).on_conflict_do_nothing().returning(refund_table.c.id))
_OF_PAYMENT = Statement(
    select(refund_table).where(refund_table.c.payment_id == param("payment_id"))
)
_EVENT = Statement(
    insert(refund_event)
    .from_select(
        [column.name for column in refund_event.c],
        select(
            payment.c.id,
            param("version", BigInteger),
            param("status", Text),
            param("at_us", BigInteger),
            param("tx_id", Text),
            payment.c.partner_id,
            payment.c.live,
        ).where(payment.c.id == param("payment_id")),
    )
    .on_conflict_do_nothing()
    .returning(refund_event.c.version)
)


@operation
def create(new: Refund) -> Op[bool]:
    """Stores a refund; False if its payment has one already."""
    if not (yield _CREATE.of(new)):
        return False
    yield from changed(new, new.created_at_us)
    return True


@operation
def refund(payment_id: str) -> Op[Refund | None]:
    """The refund of a payment."""
    rows = yield _OF_PAYMENT(payment_id=payment_id)
    return Refund(*rows[0]) if rows else None


@operation
def changed(one: Refund, at_us: int) -> Op[None]:
    """Part of an operation: writes down the event of a refund's version, and who is to be told.

    Nothing if it is written down already, as the version is that of its status.
    """
    if (
        yield _EVENT(
            payment_id=one.payment_id,
            version=one.version,
            status=one.status,
            at_us=at_us,
            tx_id=one.tx_id,
        )
    ):
        yield from outbox.tell_refund(one.payment_id, at_us)
