"""Payouts and refunds."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Select, case, select

from florin_server.domain.exports.roots import Page, Root
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.store.engine.query import Op, Row, Statement, any_of, operation, param
from florin_server.store.exports.roots import Source
from florin_server.store.exports.scan import last_of, range_of
from florin_server.store.exports.watched import watched
from florin_server.store.tables.tables import payment, payout, refund


def _payouts() -> Select[Row]:
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


def _refunds() -> Select[Row]:
    return select(
        refund.c.id,
        refund.c.payment_id,
        refund.c.status,
        refund.c.unit,
        refund.c.value,
        payment.c.unit,
        # a process of before v0022 wrote none for a refund of the whole
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


_LAST_PAYOUT = last_of(payout.c.id)
_PAYOUTS = Statement(
    range_of(_payouts(), payout.c.id)
    .where(payout.c.created_at_us > param("since_us"))
    .order_by(payout.c.id)
)
_SOME_PAYOUTS = Statement(_payouts().where(any_of(payout.c.id, "ids")))
_LAST_REFUND = last_of(refund.c.id)
_REFUNDS = Statement(
    range_of(_refunds(), refund.c.id)
    .where(refund.c.created_at_us > param("since_us"))
    .order_by(refund.c.id)
)
_SOME_REFUNDS = Statement(_refunds().where(any_of(refund.c.id, "ids")))


@operation
def payouts(after: str, since_us: int, limit: int) -> Op[Page]:
    """Payouts in the order of their ids, which tells nothing."""
    ((last, count),) = yield _LAST_PAYOUT(after=after, limit=limit)
    rows = yield _PAYOUTS(after=after, last=last or after, since_us=since_us)
    return Page((yield from _of_payouts(rows)), last if count == limit else None)


@operation
def some_payouts(ids: Collection[str]) -> Op[list[Root]]:
    """Some payouts."""
    return (yield from _of_payouts((yield _SOME_PAYOUTS(ids=ids))))


@operation
def refunds(after: str, since_us: int, limit: int) -> Op[Page]:
    """Refunds in the order of their ids, which tells nothing."""
    ((last, count),) = yield _LAST_REFUND(after=after, limit=limit)
    rows = yield _REFUNDS(after=after, last=last or after, since_us=since_us)
    return Page((yield from _of_refunds(rows)), last if count == limit else None)


@operation
def some_refunds(ids: Collection[str]) -> Op[list[Root]]:
    """Some refunds."""
    return (yield from _of_refunds((yield _SOME_REFUNDS(ids=ids))))


def _of_payouts(rows: list[Row]) -> Op[list[Root]]:
    blocks = yield from watched([(row[6], row[12]) for row in rows if row[12]])
    over = (PayoutStatus.DONE, PayoutStatus.REFUSED)
    return [
        Root(row[0], row[10], row[2] in over and row[12] not in blocks, [("payouts", row)])
        for row in rows
    ]


def _of_refunds(rows: list[Row]) -> Op[list[Root]]:
    blocks = yield from watched([(row[3].split("/")[1], row[9]) for row in rows if row[9]])
    over = (RefundStatus.SUCCEEDED, RefundStatus.FAILED)
    return [
        Root(row[0], row[10], row[2] in over and row[9] not in blocks, [("refunds", row)])
        for row in rows
    ]


PAYOUTS = Source("payouts", ("payouts",), payouts, some_payouts)
REFUNDS = Source("refunds", ("refunds",), refunds, some_refunds)
