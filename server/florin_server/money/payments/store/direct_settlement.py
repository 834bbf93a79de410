"""Payments whose transaction pays the merchant directly: settled when they succeed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, text

from florin_server.db.engine.query import Command, Op, insert, is_in, operation
from florin_server.db.tables.tables import payment_settled_table, payment_table
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.outbox.store import older_releases

_DIRECT = Command(
    insert(payment_settled_table)
    .from_select(
        [column.name for column in payment_settled_table.c],
        select(
            payment_table.c.id,
            payment_table.c.updated_at_us,
            payment_table.c.tx_id,
            payment_table.c.option_unit,
            payment_table.c.settled_value,
            text("0"),
            payment_table.c.partner_id,
            payment_table.c.live,
        )
        .where(
            is_in(payment_table.c.id, "ids"),
            payment_table.c.status == PaymentStatus.SUCCEEDED,
            payment_table.c.settled_value.is_not(None),
            payment_table.c.option_unit.is_not(None),
        )
        .order_by(payment_table.c.id),
    )
    .on_conflict_do_nothing()
)


@operation
def settle_direct(payment_ids: Sequence[str]) -> Op[None]:
    """Mark payments that succeeded with the money at the merchant; part of an operation.

    Not while processes of an older release are alive, which count events without it: then all are
    marked later.
    """
    if (yield from older_releases.is_held()):
        return
    yield _DIRECT(ids=payment_ids)
