"""The export of payouts and refunds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Select, case, select

from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import payment_table, payout_table, refund_table
from florin_server.domain.exports.roots import ExportPage, ExportRoot
from florin_server.domain.payments.payment import RefundStatus
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.features.exports.store.roots import ExportSource
from florin_server.features.exports.store.scan import select_last, select_range
from florin_server.features.exports.store.watched import find_watched_blocks


def _select_payouts() -> Select[Any]:
    return select(
        payout_table.c.id,
        payout_table.c.kind,
        payout_table.c.status,
        payout_table.c.merchant_id,
        payout_table.c.payment_id,
        payout_table.c.live,
        payout_table.c.chain_id,
        payout_table.c.asset,
        payout_table.c.value,
        payout_table.c.account,
        payout_table.c.created_at_us,
        payout_table.c.completed_at_us,
        payout_table.c.tx_id,
        payout_table.c.problem,
        payout_table.c.held_id,
    )


def _select_refunds() -> Select[Any]:
    return select(
        refund_table.c.id,
        refund_table.c.payment_id,
        refund_table.c.status,
        refund_table.c.unit,
        refund_table.c.value,
        payment_table.c.unit.label("payment_unit"),
        # a process before v0022 stored no value for a full refund
        case(
            (refund_table.c.value == payment_table.c.option_value, payment_table.c.value),
            else_=refund_table.c.payment_value,
        ).label("payment_value"),
        refund_table.c.reason,
        refund_table.c.account,
        refund_table.c.tx_id,
        refund_table.c.created_at_us,
        refund_table.c.completed_at_us,
    ).join_from(refund_table, payment_table, payment_table.c.id == refund_table.c.payment_id)


_LAST_PAYOUT = select_last(payout_table.c.id)


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
    select_range(_select_payouts(), payout_table.c.id)
    .where(payout_table.c.created_at_us > param("since_us"))
    .order_by(payout_table.c.id),
    _Payout,
)
_FIND_PAYOUTS = Statement(_select_payouts().where(is_in(payout_table.c.id, "ids")), _Payout)
_LAST_REFUND = select_last(refund_table.c.id)
_REFUNDS = Statement(
    select_range(_select_refunds(), refund_table.c.id)
    .where(refund_table.c.created_at_us > param("since_us"))
    .order_by(refund_table.c.id),
    _Refund,
)
_FIND_REFUNDS = Statement(_select_refunds().where(is_in(refund_table.c.id, "ids")), _Refund)


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
