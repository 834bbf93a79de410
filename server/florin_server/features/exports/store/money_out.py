"""The export of payouts and refunds."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, case, select

from florin_server.db.engine.query import (
    Op,
    Row,
    Statement,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.tables import payment, payout, refund
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.features.exports.store.roots import ExportSource
from florin_server.features.exports.store.scan import select_last, select_range
from florin_server.features.exports.store.watched import find_watched_blocks


def _select_payouts() -> Select[Row]:
    return select(
        payout.c.id,
        payout.c.kind,
        payout.c.status,
        payout.c.merchant_id,
        payout.c.payment_id,
        payout.c.live,
        payout.c.chain_id,
        payout.c.asset,
        payout.c.value,
        payout.c.account,
        payout.c.created_at_us,
        payout.c.completed_at_us,
        payout.c.tx_id,
        payout.c.problem,
        payout.c.held_id,
    )


def _select_refunds() -> Select[Row]:
    return select(
        refund.c.id,
        refund.c.payment_id,
        refund.c.status,
        refund.c.unit,
        refund.c.value,
        payment.c.unit,
        # a process before v0022 stored no value for a full refund
        case(
            (refund.c.value == payment.c.option_value, payment.c.value),
            else_=refund.c.payment_value,
        ),
        refund.c.reason,
        refund.c.account,
        refund.c.tx_id,
        refund.c.created_at_us,
        refund.c.completed_at_us,
    ).join_from(refund, payment, payment.c.id == refund.c.payment_id)


_LAST_PAYOUT = select_last(payout.c.id)
_PAYOUTS = Statement(
    select_range(_select_payouts(), payout.c.id)
    .where(payout.c.created_at_us > param("since_us"))
    .order_by(payout.c.id)
)
_FIND_PAYOUTS = Statement(_select_payouts().where(is_in(payout.c.id, "ids")))
_LAST_REFUND = select_last(refund.c.id)
_REFUNDS = Statement(
    select_range(_select_refunds(), refund.c.id)
    .where(refund.c.created_at_us > param("since_us"))
    .order_by(refund.c.id)
)
_FIND_REFUNDS = Statement(_select_refunds().where(is_in(refund.c.id, "ids")))


@operation
def read_payout_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of payouts in id order, which has no meaning."""
    ((last, count),) = yield _LAST_PAYOUT(after=after, limit=limit)
    rows = yield _PAYOUTS(after=after, last=last or after, since_us=since_us)
    return ExportPage((yield from _to_payout_roots(rows)), last if count == limit else None)


@operation
def read_payout_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the payouts with the given ids."""
    return (yield from _to_payout_roots((yield _FIND_PAYOUTS(ids=ids))))


@operation
def read_refund_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of refunds in id order, which has no meaning."""
    ((last, count),) = yield _LAST_REFUND(after=after, limit=limit)
    rows = yield _REFUNDS(after=after, last=last or after, since_us=since_us)
    return ExportPage((yield from _to_refund_roots(rows)), last if count == limit else None)


@operation
def read_refund_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the refunds with the given ids."""
    return (yield from _to_refund_roots((yield _FIND_REFUNDS(ids=ids))))


def _to_payout_roots(rows: list[Row]) -> Op[list[ExportRoot]]:
    blocks = yield from find_watched_blocks([(row[6], row[12]) for row in rows if row[12]])
    over = (PayoutStatus.DONE, PayoutStatus.REFUSED)
    return [
        ExportRoot(row[0], row[10], row[2] in over and row[12] not in blocks, [("payouts", row)])
        for row in rows
    ]


def _to_refund_roots(rows: list[Row]) -> Op[list[ExportRoot]]:
    blocks = yield from find_watched_blocks(
        [(row[3].split("/")[1], row[9]) for row in rows if row[9]]
    )
    over = (RefundStatus.SUCCEEDED, RefundStatus.FAILED)
    return [
        ExportRoot(row[0], row[10], row[2] in over and row[9] not in blocks, [("refunds", row)])
        for row in rows
    ]


PAYOUTS = ExportSource("payouts", ("payouts",), read_payout_page, read_payout_roots)
REFUNDS = ExportSource("refunds", ("refunds",), read_refund_page, read_refund_roots)
