"""Payments whose paying transaction brings the money to the merchant: settled when they succeed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, text

from florin_server.domain.payments.payment import Status
from florin_server.store.engine.query import Op, Statement, any_of, insert, operation
from florin_server.store.tables.tables import payment, payment_settled
from florin_server.store.upgrades import older_releases

_DIRECT = Statement(
    insert(payment_settled)
    .from_select(
        [column.name for column in payment_settled.c],
        select(
            payment.c.id,
            payment.c.updated_at_us,
            payment.c.tx_id,
            payment.c.option_unit,
            payment.c.settled_value,
            text("0"),
            payment.c.partner_id,
            payment.c.live,
        )
        .where(
            any_of(payment.c.id, "ids"),
            payment.c.status == Status.SUCCEEDED,
            payment.c.settled_value.is_not(None),
            payment.c.option_unit.is_not(None),
        )
        .order_by(payment.c.id),
    )
    .on_conflict_do_nothing()
)


@operation
def settle_direct(payment_ids: Sequence[str]) -> Op[None]:
    """Part of an operation: mark payments that succeeded with the money at the merchant.

    Not while processes of an older release are alive, which count events without it: then all are
    marked later.
    """
    if (yield from older_releases.is_held()):
        return
    yield _DIRECT(ids=payment_ids)
