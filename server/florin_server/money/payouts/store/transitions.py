"""Updates of payouts and refunds by their state tables."""

from __future__ import annotations

from sqlalchemy import Update, case, update

from florin_server.db.engine.query import is_one_of, param
from florin_server.db.tables.tables import payout_table, refund_table
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.state import PAYOUT_TRANSITIONS, REFUND_TRANSITIONS, PayoutEvent


def update_by_event(event: PayoutEvent) -> Update:
    """Build an update by the state table; it changes nothing if the event cannot happen."""
    return (
        update(payout_table)
        .where(
            payout_table.c.id == param("id_"),
            is_one_of(payout_table.c.status, PAYOUT_TRANSITIONS.list_sources(event)),
        )
        .values(status=PAYOUT_TRANSITIONS.get_target(event))
    )


def update_refund_by_event(event: PayoutEvent) -> Update:
    """Build an update of the payout's refund; a succeeded refund keeps status and transaction."""
    row = REFUND_TRANSITIONS.rows[event].items()
    moved = {before: after for before, after in row if before is not RefundStatus.SUCCEEDED}
    (after,) = set(moved.values())
    return (
        update(refund_table)
        .where(refund_table.c.id == param("id_"), is_one_of(refund_table.c.status, moved))
        .values(
            status=after,
            tx_id=param("tx"),
            completed_at_us=param("done_us"),
            version=case(
                (refund_table.c.status == after, refund_table.c.version),
                else_=param("next_version"),
            ),
        )
    )
