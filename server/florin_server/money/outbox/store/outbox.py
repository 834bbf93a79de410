"""Deliveries of changes of payments, queued in the transaction of the change.

While the event sink is on, it gets one of each payment, beside those of the endpoints. The store
says whether it is on, because every process that changes a payment has to agree on it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, case, false, literal, or_, select, union_all
from sqlalchemy.dialects.postgresql import Insert

from florin_server.db.engine.query import Command, Op, insert, is_in, operation, param
from florin_server.db.tables.tables import (
    installation_table,
    payment_settled_table,
    payment_table,
    webhook_delivery_table,
    webhook_endpoint_table,
)
from florin_server.money.outbox.store import events

# in place of an endpoint; the ids of endpoints have another form
EVENT_SINK_ID: Final = "event_sink"
# the name of the value that exists while events are queued for the sink
EVENT_SINK_MARK: Final = "event_sink"

_COLUMNS = [column.name for column in webhook_delivery_table.c]
_endpoint, _delivery = webhook_endpoint_table.c, webhook_delivery_table.c


def _select_rows(
    first: ColumnElement[int], at_us: ColumnElement[int], which: ColumnElement[bool]
) -> Insert:
    """Select the rows for endpoints and the sink: from a place on, up to the newest."""

    def list_values(receiver_id: ColumnElement[str]) -> list[ColumnElement[Any]]:
        return [
            *(receiver_id, payment_table.c.id, first - 1, events.newest_place()),
            *(literal(0), at_us, at_us, false(), literal(0)),
            *(literal(-1), literal("")),
        ]

    settled = payment_settled_table.c.payment_id == payment_table.c.id
    for_endpoints = (
        select(*list_values(_endpoint.id))
        .join_from(
            payment_table,
            webhook_endpoint_table,
            or_(
                _endpoint.owner == payment_table.c.merchant_id,
                _endpoint.owner == payment_table.c.partner_id,
            ),
        )
        .outerjoin(payment_settled_table, settled)
        # merchants can choose their ids, so an owner alone proves nothing
        .where(
            which,
            _endpoint.partner_id == payment_table.c.partner_id,
            _endpoint.live == payment_table.c.live,
        )
    )
    is_on = (
        select(installation_table.c.name)
        .where(installation_table.c.name == literal(EVENT_SINK_MARK))
        .exists()
    )
    for_sink = (
        select(*list_values(literal(EVENT_SINK_ID)))
        .select_from(payment_table)
        .outerjoin(payment_settled_table, settled)
        .where(which, is_on)
    )
    # of the payments of one operation
    rows = union_all(for_endpoints, for_sink).subquery("limited")
    # all lockers lock rows in one order
    ordered = select(rows).order_by(*list(rows.c)[:2])
    return insert(webhook_delivery_table).from_select(_COLUMNS, ordered)


def _enqueue_command(new: Insert) -> Command:
    given_up = _delivery.next_at_us.is_(None)
    return Command(
        new.on_conflict_do_update(
            index_elements=["endpoint_id", "payment_id"],
            set_={
                "newest": new.excluded.newest,
                # a delivery that was given up is tried again, from where it stopped
                "attempts": case((given_up, 0), else_=_delivery.attempts),
                "since_us": case((given_up, new.excluded.since_us), else_=_delivery.since_us),
                "next_at_us": case((given_up, new.excluded.next_at_us), else_=_delivery.next_at_us),
            },
        )
    )


# a settlement by the paying transaction is queued with the success
_ENQUEUE_CHANGES = _enqueue_command(
    _select_rows(
        payment_table.c.version, payment_table.c.updated_at_us, is_in(payment_table.c.id, "ids")
    )
)
# most operations change one payment; for any number of ids PostgreSQL makes a new plan on each run,
# which costs more than the rest of the operation
_ENQUEUE_CHANGE = _enqueue_command(
    _select_rows(
        payment_table.c.version,
        payment_table.c.updated_at_us,
        payment_table.c.id == param("payment_id"),
    )
)
_ENQUEUE_SETTLEMENTS = _enqueue_command(
    _select_rows(
        events.newest_place(), payment_settled_table.c.at_us, is_in(payment_table.c.id, "ids")
    )
)
_ENQUEUE_LATER_CHANGE = _enqueue_command(
    _select_rows(
        events.newest_place(), param("at_us", BigInteger), payment_table.c.id == param("payment_id")
    )
)


@operation
def enqueue_changes(payment_ids: Collection[str]) -> Op[None]:
    """Queue the newest changes of payments for their endpoints; part of an operation."""
    if len(payment_ids) == 1:
        (payment_id,) = payment_ids
        yield _ENQUEUE_CHANGE(payment_id=payment_id)
    else:
        yield _ENQUEUE_CHANGES(ids=payment_ids)


@operation
def enqueue_settlements(payment_ids: Collection[str]) -> Op[None]:
    """Queue the settlements of locked payments; part of an operation."""
    yield _ENQUEUE_SETTLEMENTS(ids=payment_ids)


@operation
def enqueue_later_change(payment_id: str, at_us: int) -> Op[None]:
    """Queue the newest change of a locked payment's refunds or deposits; part of an operation."""
    yield _ENQUEUE_LATER_CHANGE(payment_id=payment_id, at_us=at_us)
