"""Events of a payment in the one order in which endpoints receive them.

The payment's own come first, at the places that its versions are. Those of its refunds and of its
settlement follow, in the order in which they were committed: `payment_settled` counts the events
of refunds before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import Payment, Refund
from florin_server.domain.webhooks.endpoint import SETTLED, type_of, type_of_refund
from florin_server.domain.webhooks.snapshot import PaymentEvent, PaymentSettlement, refund_as_of
from florin_server.store.engine.query import Op, Statement, operation, param
from florin_server.store.tables.tables import payment as payment_table
from florin_server.store.tables.tables import payment_event, payment_settled, refund_event
from florin_server.store.tables.tables import refund as refund_table

_event, _back, _settled = payment_event.c, refund_event.c, payment_settled.c
_EVENTS = Statement(
    select(_event.version, _event.at_us, _event.cause, _event.status, _event.detail)
    .where(_event.payment_id == param("payment_id"))
    .order_by(_event.version)
)
_REFUND_EVENTS = Statement(
    select(_back.version, _back.status, _back.at_us, _back.tx_id, *refund_table.c)
    .join_from(
        refund_event,
        refund_table,
        and_(
            refund_table.c.payment_id == _back.payment_id,
            or_(
                refund_table.c.id == _back.refund_id,
                # an older process wrote it, and a payment had one refund then
                and_(_back.refund_id == "", refund_table.c.ordinal == 1),
            ),
        ),
    )
    .where(_back.payment_id == param("payment_id"))
    .order_by(_back.version)
)
_SETTLED = Statement(
    select(
        _settled.at_us, _settled.tx_id, _settled.unit, _settled.value, _settled.after_refunds
    ).where(_settled.payment_id == param("payment_id"))
)


def place_of_settlement() -> ColumnElement[int]:
    """Return the place of a payment's settlement, where both tables are joined."""
    return payment_table.c.version + _settled.after_refunds + 1


def place_of_refund_event() -> ColumnElement[int]:
    """Return the place of an event of a refund; the settlement is joined if there is one."""
    before = case((_back.version > _settled.after_refunds, 1), else_=0)
    return payment_table.c.version + _back.version + before


def newest_place() -> ColumnElement[int]:
    """Return the place of a payment's newest event; the settlement is joined if there is one."""
    refunds = (
        select(func.coalesce(func.max(_back.version), 0))
        .where(_back.payment_id == payment_table.c.id)
        .correlate(payment_table)
        .scalar_subquery()
    )
    return payment_table.c.version + refunds + case((_settled.payment_id.is_(None), 0), else_=1)


@operation
def history(payment: Payment) -> Op[list[PaymentEvent]]:
    """Return all events of a payment, in order."""
    rows = yield _EVENTS(payment_id=payment.id)
    events = [
        PaymentEvent(version, at_us, type_of(cause, status), status, simulated=_amount(detail))
        for version, at_us, cause, status, detail in rows
    ]
    if not payment.status.is_final:
        return events
    rows = yield _SETTLED(payment_id=payment.id)
    after_refunds = None
    if rows:
        (*settlement, after_refunds) = rows[0]
    for version, status, at_us, tx_id, *kept in (yield _REFUND_EVENTS(payment_id=payment.id)):
        then = refund_as_of(Refund(*kept), version, status, at_us, tx_id)
        place = payment.version + version
        if after_refunds is not None and version > after_refunds:
            place += 1
        events.append(PaymentEvent(place, at_us, type_of_refund(status), payment.status, then))
    if after_refunds is not None:
        made = PaymentSettlement(*settlement)
        place = payment.version + after_refunds + 1
        events.append(PaymentEvent(place, made.at_us, SETTLED, payment.status, settlement=made))
        events.sort(key=lambda event: event.place)
    return events


def _amount(detail: Mapping[str, Any] | None) -> Amount | None:
    """Return what a payment would pay whose processing was simulated."""
    if detail is None or "unit" not in detail:
        return None
    return Amount(detail["unit"], int(detail["value"]))
