"""Events of a payment in the single order in which endpoints receive them.

The payment's own events come first, at the places of its versions. The events of its refunds, of
its settlement and of money at its addresses follow, in the order of their commits. Events of
refunds and of deposits are counted together, and `payment_settled` counts those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, func, or_, select

from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.tables.tables import (
    deposit_event_table,
    payment_event_table,
    payment_settled_table,
    payment_table,
    refund_event_table,
    refund_table,
    webhook_delivery_table,
)
from florin_server.domain.money import Amount
from florin_server.domain.payments.deposits import DepositReport
from florin_server.domain.payments.payment import Payment, PaymentStatus, Refund, RefundStatus
from florin_server.domain.payments.state import DEPOSIT_CAUSES, PaymentStateEvent
from florin_server.domain.webhooks.endpoint import (
    SETTLED_TYPE,
    find_event_type,
    get_deposit_event_type,
    get_refund_event_type,
)
from florin_server.domain.webhooks.snapshot import PaymentEvent, PaymentSettlement, refund_at

_event, _refund_event, _settled, _deposit_event = (
    payment_event_table.c,
    refund_event_table.c,
    payment_settled_table.c,
    deposit_event_table.c,
)


# the place up to which a receiver has the events of a payment
PLACE = webhook_delivery_table.c.told


class _PaymentChange(NamedTuple):
    version: int
    at_us: int
    cause: str
    status: PaymentStatus
    detail: dict[str, Any] | None


class _RefundChange(NamedTuple):
    version: int
    status: RefundStatus
    at_us: int
    tx_id: str | None
    refund: Refund


class _LaterDeposit(NamedTuple):
    version: int
    at_us: int
    cause: str
    detail: dict[str, Any]


class _Settled(NamedTuple):
    settlement: PaymentSettlement
    after_refunds: int


_EVENTS = Statement(
    select(_event.version, _event.at_us, _event.cause, _event.status, _event.detail)
    .where(_event.payment_id == param("payment_id"))
    .order_by(_event.version),
    _PaymentChange,
)
_REFUND_EVENTS = Statement(
    select(
        _refund_event.version,
        _refund_event.status,
        _refund_event.at_us,
        _refund_event.tx_id,
        *refund_table.c,
    )
    .join_from(
        refund_event_table,
        refund_table,
        and_(
            refund_table.c.payment_id == _refund_event.payment_id,
            or_(
                refund_table.c.id == _refund_event.refund_id,
                # an older process wrote it, when a payment had at most one refund
                and_(_refund_event.refund_id == "", refund_table.c.ordinal == 1),
            ),
        ),
    )
    .where(_refund_event.payment_id == param("payment_id"))
    .order_by(_refund_event.version),
    _RefundChange,
    refund=Refund,
)
_DEPOSIT_EVENTS = Statement(
    select(
        _deposit_event.version, _deposit_event.at_us, _deposit_event.cause, _deposit_event.detail
    )
    .where(_deposit_event.payment_id == param("payment_id"), _deposit_event.version.is_not(None))
    .order_by(_deposit_event.version),
    _LaterDeposit,
)
_SETTLED = Statement(
    select(
        _settled.at_us, _settled.tx_id, _settled.unit, _settled.value, _settled.after_refunds
    ).where(_settled.payment_id == param("payment_id")),
    _Settled,
    settlement=PaymentSettlement,
)


def place_of_settlement() -> ColumnElement[int]:
    """Return the place of a payment's settlement, where both tables are joined."""
    return payment_table.c.version + _settled.after_refunds + 1


def place_of_refund_event() -> ColumnElement[int]:
    """Return the place of a refund's event; the settlement is joined if it exists."""
    return _place_of(_refund_event.version)


def place_of_deposit_event() -> ColumnElement[int]:
    """Return the place of a later event of a deposit; the settlement is joined if it exists."""
    return _place_of(_deposit_event.version)


def _place_of(version: ColumnElement[Any]) -> ColumnElement[int]:
    before = case((version > _settled.after_refunds, 1), else_=0)
    return payment_table.c.version + version + before


def count_later_events() -> ColumnElement[int]:
    """Return how many events of refunds and deposits followed the end of a joined payment."""
    refunds, deposits = (
        select(func.coalesce(func.max(table.c.version), 0))
        .where(table.c.payment_id == payment_table.c.id)
        .correlate(payment_table)
        .scalar_subquery()
        for table in (refund_event_table, deposit_event_table)
    )
    return case((deposits > refunds, deposits), else_=refunds)


def newest_place() -> ColumnElement[int]:
    """Return the place of a payment's newest event; the settlement is joined if it exists."""
    settled = case((_settled.payment_id.is_(None), 0), else_=1)
    return payment_table.c.version + count_later_events() + settled


@operation
def list_events(payment: Payment) -> Op[list[PaymentEvent]]:
    """Return all events of a payment, in order."""
    rows = yield from _EVENTS.all(payment_id=payment.id)
    events = [
        PaymentEvent(
            version,
            at_us,
            find_event_type(cause, status),
            status,
            simulated=_find_simulated_amount(detail),
            deposit=DepositReport.from_json(detail) if detail and cause in DEPOSIT_CAUSES else None,
        )
        for version, at_us, cause, status, detail in rows
    ]
    if not payment.status.is_final:
        return events
    settled = yield from _SETTLED.first(payment_id=payment.id)

    def get_place(version: int) -> int:
        is_after = settled is not None and version > settled.after_refunds
        return payment.version + version + is_after

    for change in (yield from _REFUND_EVENTS.all(payment_id=payment.id)):
        then = refund_at(change.refund, change.version, change.status, change.at_us, change.tx_id)
        event_type = get_refund_event_type(change.status)
        place = get_place(change.version)
        events.append(PaymentEvent(place, change.at_us, event_type, payment.status, then))
    later_deposits = yield from _DEPOSIT_EVENTS.all(payment_id=payment.id)
    events += [
        PaymentEvent(
            get_place(later.version),
            later.at_us,
            get_deposit_event_type(PaymentStateEvent(later.cause)),
            payment.status,
            deposit=DepositReport.from_json(later.detail),
        )
        for later in later_deposits
    ]
    if settled is not None:
        events.append(
            PaymentEvent(
                payment.version + settled.after_refunds + 1,
                settled.settlement.at_us,
                SETTLED_TYPE,
                payment.status,
                settlement=settled.settlement,
            )
        )
    events.sort(key=lambda event: event.place)
    return events


def _find_simulated_amount(detail: Mapping[str, Any] | None) -> Amount | None:
    """Return the amount of a payment whose processing was simulated; None for other events."""
    if detail is None or "unit" not in detail:
        return None
    return Amount(detail["unit"], int(detail["value"]))
