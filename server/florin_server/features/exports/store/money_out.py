"""The export of payouts and refunds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Select, case, select

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import payment, payout, refund
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.features.exports.store.roots import ExportSource
from florin_server.features.exports.store.scan import select_last, select_range
from florin_server.features.exports.store.watched import find_watched_blocks


def _select_payouts() -> Select[Any]:
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


def _select_refunds() -> Select[Any]:
    return select(
        refund.c.id,
        refund.c.payment_id,
        refund.c.status,
        refund.c.unit,
        refund.c.value,
        payment.c.unit.label("payment_unit"),
        # a process before v0022 stored no value for a full refund
        case(
            (refund.c.value == payment.c.option_value, payment.c.value),
            else_=refund.c.payment_value,
        ).label("payment_value"),
        refund.c.reason,
        refund.c.account,
        refund.c.tx_id,
        refund.c.created_at_us,
        refund.c.completed_at_us,
    ).join_from(refund, payment, payment.c.id == refund.c.payment_id)


_LAST_PAYOUT = select_last(payout.c.id)


class _Payout(NamedTuple):
    id: str
    kind: PayoutKind
    status: PayoutStatus
    merchant_id: str
    payment_id: str | None
    live: bool
    chain_id: str
    asset: str
    value: int
    account: str
    created_at_us: int
    completed_at_us: int | None
    tx_id: str | None
    problem: str | None
    held_id: str | None


class _Refund(NamedTuple):
    id: str
    payment_id: str
    status: RefundStatus
    unit: str
    value: int
    payment_unit: str
    payment_value: int
    reason: str | None
    account: str | None
    tx_id: str | None
    created_at_us: int
    completed_at_us: int | None


_PAYOUTS = Statement(
    select_range(_select_payouts(), payout.c.id)
    .where(payout.c.created_at_us > param("since_us"))
    .order_by(payout.c.id),
    _Payout,
)
_FIND_PAYOUTS = Statement(_select_payouts().where(is_in(payout.c.id, "ids")), _Payout)
_LAST_REFUND = select_last(refund.c.id)
_REFUNDS = Statement(
    select_range(_select_refunds(), refund.c.id)
    .where(refund.c.created_at_us > param("since_us"))
    .order_by(refund.c.id),
    _Refund,
)
_FIND_REFUNDS = Statement(_select_refunds().where(is_in(refund.c.id, "ids")), _Refund)


@operation
def read_payout_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of payouts in id order, which has no meaning."""
    last, count = yield from _LAST_PAYOUT.single(after=after, limit=limit)
    rows = yield from _PAYOUTS.all(after=after, last=last or after, since_us=since_us)
    return ExportPage((yield from _to_payout_roots(rows)), last if count == limit else None)


@operation
def read_payout_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the payouts with the given ids."""
    return (yield from _to_payout_roots((yield from _FIND_PAYOUTS.all(ids=ids))))


@operation
def read_refund_page(after: str, since_us: int, limit: int) -> Op[ExportPage]:
    """Return a page of refunds in id order, which has no meaning."""
    last, count = yield from _LAST_REFUND.single(after=after, limit=limit)
    rows = yield from _REFUNDS.all(after=after, last=last or after, since_us=since_us)
    return ExportPage((yield from _to_refund_roots(rows)), last if count == limit else None)


@operation
def read_refund_roots(ids: Collection[str]) -> Op[list[ExportRoot]]:
    """Return the refunds with the given ids."""
    return (yield from _to_refund_roots((yield from _FIND_REFUNDS.all(ids=ids))))


def _to_payout_roots(rows: list[_Payout]) -> Op[list[ExportRoot]]:
    blocks = yield from find_watched_blocks(
        [(row.chain_id, row.tx_id) for row in rows if row.tx_id]
    )
    over = (PayoutStatus.DONE, PayoutStatus.REFUSED)
    return [
        ExportRoot(
            row.id,
            row.created_at_us,
            row.status in over and row.tx_id not in blocks,
            [("payouts", row)],
        )
        for row in rows
    ]


def _to_refund_roots(rows: list[_Refund]) -> Op[list[ExportRoot]]:
    blocks = yield from find_watched_blocks(
        [(row.unit.split("/")[1], row.tx_id) for row in rows if row.tx_id]
    )
    over = (RefundStatus.SUCCEEDED, RefundStatus.FAILED)
    return [
        ExportRoot(
            row.id,
            row.created_at_us,
            row.status in over and row.tx_id not in blocks,
            [("refunds", row)],
        )
        for row in rows
    ]


PAYOUTS = ExportSource("payouts", ("payouts",), read_payout_page, read_payout_roots)
REFUNDS = ExportSource("refunds", ("refunds",), read_refund_page, read_refund_roots)
