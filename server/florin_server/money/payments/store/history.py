"""A check of payments' history: every recorded change must match the state table."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, select

from florin_server.db.engine.query import Op, Statement, operation
from florin_server.db.tables.tables import payment, payment_event
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.state import is_transition


def _previous_value(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column's value in the payment's previous change; null for the first change."""
    event = payment_event.c
    return func.lag(column).over(partition_by=event.payment_id, order_by=event.version)


_steps = select(
    *(payment_event.c.payment_id, payment_event.c.version),
    *(payment_event.c.status, payment_event.c.cause),
    _previous_value(payment_event.c.status).label("before"),
    _previous_value(payment_event.c.version).label("former"),
).subquery()


def _count_by(payment_id: ColumnElement[str], *kind: ColumnElement[Any]) -> Select[Any]:
    """Return an example and the number of payments, for each kind."""
    return select(*kind, func.min(payment_id), func.count()).group_by(*kind)


# few kinds of changes exist, even with many payments
_KINDS = Statement(_count_by(_steps.c.payment_id, _steps.c.before, _steps.c.cause, _steps.c.status))
_GAPS = Statement(
    _count_by(_steps.c.payment_id).where(_steps.c.version != func.coalesce(_steps.c.former, -1) + 1)
)
_UNRECORDED = Statement(
    _count_by(payment.c.id).where(
        ~exists().where(
            payment_event.c.payment_id == payment.c.id,
            payment_event.c.version == payment.c.version,
            payment_event.c.status == payment.c.status,
        )
    )
)


@operation
def check() -> Op[list[str]]:
    """Return the errors, in sentences; reads every payment."""
    wrong = []
    for before, cause, after, example, count in (yield _KINDS()):
        former = None if before is None else PaymentStatus(before)
        if not is_transition(former, cause, after):
            moved = f"{cause} moved {count} payments from {before or 'nothing'} to {after}"
            wrong.append(f"{moved}, against the state table: {example}")
    for what, rows in (
        ("a change that was not recorded", (yield _GAPS())),
        ("a status without a recorded change", (yield _UNRECORDED())),
    ):
        ((example, count),) = rows
        if count:
            wrong.append(f"{count} payments have {what}: {example}")
    return wrong
