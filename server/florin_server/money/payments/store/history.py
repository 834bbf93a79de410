"""A check of payments' history: every recorded change must match the state table."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, exists, func, select

from florin_server.db.engine.query import Op, Statement, operation
from florin_server.db.tables.tables import payment_event_table, payment_table
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.payments.state import is_transition


def _previous_value(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the column's value in the payment's previous change; null for the first change."""
    event = payment_event_table.c
    return func.lag(column).over(partition_by=event.payment_id, order_by=event.version)


_steps = select(
    *(payment_event_table.c.payment_id, payment_event_table.c.version),
    *(payment_event_table.c.status, payment_event_table.c.cause),
    _previous_value(payment_event_table.c.status).label("before"),
    _previous_value(payment_event_table.c.version).label("former"),
).subquery()


def _count_by(payment_id: ColumnElement[str], *kind: ColumnElement[Any]) -> Select[Any]:
    """Return an example and the number of payments, for each kind."""
    return select(
        *kind, func.min(payment_id).label("example"), func.count().label("number")
    ).group_by(*kind)


class _ChangeKind(NamedTuple):
    before: str | None
    cause: str
    status: PaymentStatus
    example: str
    number: int


class _Payments(NamedTuple):
    example: str | None
    number: int


# few kinds of changes exist, even with many payments
_KINDS = Statement(
    _count_by(_steps.c.payment_id, _steps.c.before, _steps.c.cause, _steps.c.status), _ChangeKind
)
_GAPS = Statement(
    _count_by(_steps.c.payment_id).where(
        _steps.c.version != func.coalesce(_steps.c.former, -1) + 1
    ),
    _Payments,
)
_UNRECORDED = Statement(
    _count_by(payment_table.c.id).where(
        ~exists().where(
            payment_event_table.c.payment_id == payment_table.c.id,
            payment_event_table.c.version == payment_table.c.version,
            payment_event_table.c.status == payment_table.c.status,
        )
    ),
    _Payments,
)


@operation
def check() -> Op[list[str]]:
    """Return the errors, in sentences; reads every payment."""
    wrong = []
    for kind in (yield from _KINDS.all()):
        former = None if kind.before is None else PaymentStatus(kind.before)
        if not is_transition(former, kind.cause, kind.status):
            change = f"from {kind.before or 'nothing'} to {kind.status}"
            moved = f"{kind.cause} moved {kind.number} payments {change}"
            wrong.append(f"{moved}, against the state table: {kind.example}")
    for what, wrong_payments in (
        ("a change that was not recorded", (yield from _GAPS.single())),
        ("a status without a recorded change", (yield from _UNRECORDED.single())),
    ):
        if wrong_payments.number:
            wrong.append(f"{wrong_payments.number} payments have {what}: {wrong_payments.example}")
    return wrong
