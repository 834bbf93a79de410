"""What a report says about the payments of a page of journals."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, select

from florin_server.db.engine.query import Op, Statement, is_in, operation, param, sum_u256
from florin_server.db.tables.tables import (
    merchant_table,
    payment_settled_table,
    payment_table,
    refund_table,
)
from florin_server.domain.payments.payment import RefundStatus


class _Payment(NamedTuple):
    id: str
    merchant: str
    reference_id: str
    unit: str
    value: int
    option_value: int | None
    tx_id: str | None


class _RefundSum(NamedTuple):
    payment_id: str
    unit: str
    value: int


class _Settled(NamedTuple):
    payment_id: str
    at_us: int
    unit: str
    value: int


@dataclass(frozen=True, slots=True)
class ReportPayment:
    """A payment with its merchant's name, its refunds and what the merchant received.

    `value` is what was requested, in minor units of `unit`, and `option_value` what was to pay, in
    minor units of the asset. `refunded` counts refunds that succeeded before the end of the
    period, in minor units of `refund_unit`. `settled_value` is in minor units of `settled_unit`,
    and None until the merchant has the money.
    """

    id: str
    merchant: str
    reference_id: str
    unit: str
    value: int
    option_value: int | None
    tx_id: str | None
    refund_unit: str
    refunded: int
    settled_unit: str
    settled_value: int | None
    settled_at_us: int | None


def _select_refunds() -> Select[Any]:
    return (
        select(
            refund_table.c.payment_id,
            refund_table.c.unit,
            sum_u256(refund_table.c.value).label("value"),
        )
        .where(
            is_in(refund_table.c.payment_id, "ids"),
            refund_table.c.status == RefundStatus.SUCCEEDED,
            refund_table.c.completed_at_us < param("end_us"),
        )
        .group_by(refund_table.c.payment_id, refund_table.c.unit)
    )


_PAYMENTS = Statement(
    select(
        payment_table.c.id,
        merchant_table.c.name.label("merchant"),
        payment_table.c.reference_id,
        payment_table.c.unit,
        payment_table.c.value,
        payment_table.c.option_value,
        payment_table.c.tx_id,
    )
    .join_from(payment_table, merchant_table, merchant_table.c.id == payment_table.c.merchant_id)
    .where(is_in(payment_table.c.id, "ids")),
    _Payment,
)
_REFUNDS = Statement(_select_refunds(), _RefundSum)
_SETTLED = Statement(
    select(
        payment_settled_table.c.payment_id,
        payment_settled_table.c.at_us,
        payment_settled_table.c.unit,
        payment_settled_table.c.value,
    ).where(
        is_in(payment_settled_table.c.payment_id, "ids"),
        payment_settled_table.c.at_us < param("end_us"),
    ),
    _Settled,
)


@operation
def find_payments(ids: Collection[str], end_us: int) -> Op[Mapping[str, ReportPayment]]:
    """Return payments by id, with what happened to them before a time."""
    payments = yield from _PAYMENTS.all(ids=ids)
    refunds = {
        refund.payment_id: refund for refund in (yield from _REFUNDS.all(ids=ids, end_us=end_us))
    }
    settled = {row.payment_id: row for row in (yield from _SETTLED.all(ids=ids, end_us=end_us))}
    return {
        payment.id: _join(payment, refunds.get(payment.id), settled.get(payment.id))
        for payment in payments
    }


def _join(payment: _Payment, refund: _RefundSum | None, settled: _Settled | None) -> ReportPayment:
    return ReportPayment(
        *payment,
        refund_unit=refund.unit if refund else "",
        refunded=refund.value if refund else 0,
        settled_unit=settled.unit if settled else "",
        settled_value=settled.value if settled else None,
        settled_at_us=settled.at_us if settled else None,
    )
