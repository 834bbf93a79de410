"""Whether payments moved as the state table says: every change of them that was written down."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, select

from florin_server.domain.payments.payment import Status
from florin_server.domain.payments.state import is_step
from florin_server.store.engine.query import Op, Statement, operation
from florin_server.store.tables.tables import payment, payment_event


def _before(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """What the change of a payment before this one has there; null for its first one."""
    event = payment_event.c
    return func.lag(column).over(partition_by=event.payment_id, order_by=event.version)


_steps = select(
    *(payment_event.c.payment_id, payment_event.c.version),
    *(payment_event.c.status, payment_event.c.cause),
    _before(payment_event.c.status).label("before"),
    _before(payment_event.c.version).label("former"),
).subquery()


def _counted(payment_id: ColumnElement[str], *kind: ColumnElement[Any]) -> Select[Any]:
    """An example and the number of payments, for each kind."""
    return select(*kind, func.min(payment_id), func.count()).group_by(*kind)


# however many payments there are, there are few kinds of changes
_KINDS = Statement(_counted(_steps.c.payment_id, _steps.c.before, _steps.c.cause, _steps.c.status))
_GAPS = Statement(
    _counted(_steps.c.payment_id).where(_steps.c.version != func.coalesce(_steps.c.former, -1) + 1)
)
_UNTOLD = Statement(
    _counted(payment.c.id).where(
        ~exists().where(
            payment_event.c.payment_id == payment.c.id,
            payment_event.c.version == payment.c.version,
            payment_event.c.status == payment.c.status,
        )
    )
)


@operation
def check() -> Op[list[str]]:
    """What is wrong, in sentences; looks at every payment that there is."""
    wrong = []
    for before, cause, after, example, count in (yield _KINDS()):
        former = None if before is None else Status(before)
        if not is_step(former, cause, after):
            moved = f"{cause} moved {count} payments from {before or 'nothing'} to {after}"
            wrong.append(f"{moved}, against the state table: {example}")
    for what, found in (
        ("a change that was not written down", (yield _GAPS())),
        ("a status that no change tells of", (yield _UNTOLD())),
    ):
        ((example, count),) = found
        if count:
            wrong.append(f"{count} payments have {what}: {example}")
    return wrong
