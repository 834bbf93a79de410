"""Events of a payment as endpoints are told them: its own changes, and then those of its refund."""

from __future__ import annotations

from sqlalchemy import select

from florin_server.domain.payments.payment import Payment, Refund
from florin_server.domain.webhooks.endpoint import type_of, type_of_refund
from florin_server.domain.webhooks.past import Happened, refund_as_of
from florin_server.store.engine.query import Op, Statement, operation, param
from florin_server.store.tables.tables import payment_event, refund_event
from florin_server.store.tables.tables import refund as refund_table

_event, _back = payment_event.c, refund_event.c
_EVENTS = Statement(
    select(_event.version, _event.at_us, _event.cause, _event.status)
    .where(
        _event.payment_id == param("payment_id"),
        _event.version > param("told"),
        _event.version <= param("newest"),
    )
    .order_by(_event.version)
)
_REFUND_EVENTS = Statement(
    select(_back.version, _back.status, _back.at_us, _back.tx_id, *refund_table.c)
    .join_from(refund_event, refund_table, refund_table.c.payment_id == _back.payment_id)
    .where(
        _back.payment_id == param("payment_id"),
        _back.version > param("told"),
        _back.version <= param("newest"),
    )
    .order_by(_back.version)
)


@operation
def between(payment: Payment, told: int, newest: int) -> Op[list[Happened]]:
    """The events at places above one, up to another, in order."""
    rows = yield _EVENTS(payment_id=payment.id, told=told, newest=newest)
    found = [
        Happened(version, at_us, type_of(cause, status), status)
        for version, at_us, cause, status in rows
    ]
    if newest <= payment.version:
        return found
    base = payment.version
    rows = yield _REFUND_EVENTS(payment_id=payment.id, told=told - base, newest=newest - base)
    for version, status, at_us, tx_id, *kept in rows:
        then = refund_as_of(Refund(*kept), version, status, at_us, tx_id)
        told_as = type_of_refund(status)
        found.append(Happened(base + version, at_us, told_as, payment.status, then))
    return found
