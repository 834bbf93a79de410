"""Refunds of payments, paid out in the order of requests.

Every operation that adds or changes a refund holds the lock of its payment's row. The amounts that
limit a new refund therefore cannot change meanwhile, and the changes of all refunds of a payment
have one order.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Text, func, select

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param
from florin_server.db.tables.tables import (
    deposit_event_table,
    payment_table,
    refund_event_table,
    refund_table,
)
from florin_server.domain.payments.payment import Refund
from florin_server.money.outbox.store import outbox

_CREATE = Command(insert(refund_table))
_LOCK = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("payment_id")).with_for_update(),
    str,
)
_OF_PAYMENT = Statement(
    select(refund_table)
    .where(refund_table.c.payment_id == param("payment_id"))
    .order_by(refund_table.c.ordinal),
    Refund,
)
_GET = Statement(select(refund_table).where(refund_table.c.id == param("id_")), Refund)
_NEWEST = Statement(
    select(func.coalesce(func.max(refund_table.c.version), 0)).where(
        refund_table.c.payment_id == param("payment_id")
    ),
    int,
)
_NEWEST_DEPOSIT = Statement(
    select(func.coalesce(func.max(deposit_event_table.c.version), 0)).where(
        deposit_event_table.c.payment_id == param("payment_id")
    ),
    int,
)
_EVENT = Statement(
    insert(refund_event_table)
    .from_select(
        [column.name for column in refund_event_table.c],
        select(
            payment_table.c.id,
            param("version", BigInteger),
            param("status", Text),
            param("at_us", BigInteger),
            param("tx_id", Text),
            payment_table.c.partner_id,
            payment_table.c.live,
            param("refund_id", Text),
        ).where(payment_table.c.id == param("payment_id")),
    )
    .on_conflict_do_nothing()
    .returning(refund_event_table.c.version),
    int,
)


@operation
def lock(payment_id: str) -> Op[None]:
    """Lock the refunds of a payment until the surrounding operation ends.

    Read the refunds after it, not before: a statement sees what was committed when it began.
    """
    yield from _LOCK.all(payment_id=payment_id)


@operation
def create(refund: Refund) -> Op[None]:
    """Store a refund of a locked payment, and its first event; part of an operation."""
    yield _CREATE(refund)
    yield from record_change(refund, refund.created_at_us)


@operation
def list_refunds(payment_id: str) -> Op[list[Refund]]:
    """Return the refunds of a payment, the oldest first."""
    return (yield from _OF_PAYMENT.all(payment_id=payment_id))


@operation
def find_refund(refund_id: str) -> Op[Refund | None]:
    """Return a refund by its id; None if it does not exist."""
    return (yield from _GET.first(id_=refund_id))


@operation
def get_next_version(payment_id: str) -> Op[int]:
    """Return the next version of a locked payment's refunds; part of an operation.

    It also counts the events of deposits after the end of the payment.
    """
    newest = yield from _NEWEST.single(payment_id=payment_id)
    return max(newest, (yield from _NEWEST_DEPOSIT.single(payment_id=payment_id))) + 1


@operation
def record_change(refund: Refund, at_us: int) -> Op[None]:
    """Record the event of a refund's version, and queue its deliveries; part of an operation.

    Do nothing if the event is already recorded, as the version belongs to its status.
    """
    if (
        yield from _EVENT.any(
            payment_id=refund.payment_id,
            version=refund.version,
            status=refund.status,
            at_us=at_us,
            tx_id=refund.tx_id,
            refund_id=refund.id,
        )
    ):
        yield from outbox.enqueue_later_change(refund.payment_id, at_us)
