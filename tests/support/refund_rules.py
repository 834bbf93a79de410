"""Requests for refunds whose answers are compared with plain sums, and faults to plant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    Payment,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.payouts import refund_amounts
from florin_server.domain.payouts.refund_amounts import (
    RefundAmount,
    RefundTotals,
    RefundValues,
    split_refund,
    sum_refunds,
)

ETHER, USD = "caip19/eip155:1/slip44:60", "iso4217/USD"
# 12.50 USD at a rate that no whole number of wei expresses
WEI, CENTS = 7221384158848501, 1250


def make_payment(paid: int, value: int) -> Payment:
    return Payment(
        "pay_1", "partner", "merchant", True, PaymentStatus.SUCCEEDED, 2, USD, value, "order",
        None, None,
        bytes(16), 0, 0, 0, option_unit=ETHER, option_value=paid,
    )  # fmt: skip


def make_refund(values: RefundValues, status: RefundStatus = RefundStatus.PENDING) -> Refund:
    return Refund(
        "rfnd_1", "pay_1", ETHER, values.value, None, status, None, 0,
        payment_value=values.payment_value,
    )  # fmt: skip


def check_refusal(
    subject: Payment, rests: tuple[int, int], unit: str | None, value: int, refusal: ApiError
) -> None:
    paid, (rest, currency_rest) = subject.option_value or 0, rests
    if refusal.code is not ErrorCode.ALREADY_REFUNDED:
        assert refusal.code is ErrorCode.PARAMS_VALIDATION
        assert value == 0 or (unit == USD and value * paid < subject.value)
        return
    assert refusal.details["refunded"] == str(paid - rest)
    assert refusal.details["refundable"] == str(rest)
    if unit == ETHER:
        assert value > rest
    if unit == USD:
        assert value > currency_rest or value * paid > rest * subject.value


def check_step(
    subject: Payment, existing: Sequence[Refund], unit: str | None, value: int
) -> Refund:
    """Request a refund and compare the answer with sums made here; FlorinError if it is refused."""
    paid = subject.option_value or 0
    active = [item for item in existing if item.status is not RefundStatus.FAILED]
    rest = paid - sum(item.value for item in active)
    currency_rest = subject.value - sum(item.payment_value for item in active)
    totals = refund_amounts.sum_refunds(subject, existing)
    try:
        if existing and unit is None:
            raise totals.already_refunded_error()
        requested = None if unit is None else RefundAmount(unit, str(value))
        result = refund_amounts.split_refund(subject, totals, requested)
    except ApiError as error:
        check_refusal(subject, (rest, currency_rest), unit, value, error)
        raise
    assert 1 <= result.value <= rest
    assert 0 <= result.payment_value <= currency_rest
    if unit is None:
        assert (result.value, result.payment_value) == (paid, subject.value)
    if unit == ETHER:
        assert result.value == value
    if unit == USD:
        assert result.payment_value == value
        full_rest = rest if value == currency_rest else value * paid // subject.value
        assert result.value == full_rest
    return make_refund(result)


def play_steps(paid: int, value: int, steps: Iterable[tuple[str | None, int, int, bool]]) -> None:
    subject, refunds = make_payment(paid, value), []
    for unit, share, more, fails in steps:
        totals = sum_refunds(subject, refunds)
        left = totals.payment_refundable if unit == USD else totals.refundable
        try:
            new = check_step(subject, refunds, unit, left * share // 1000 + more)
        except ApiError:
            continue
        status = RefundStatus.FAILED if fails else RefundStatus.SUCCEEDED
        refunds.append(make_refund(RefundValues(new.value, new.payment_value), status))


def sum_only_the_newest(subject: Payment, refunds: Sequence[Refund]) -> RefundTotals:
    return sum_refunds(subject, refunds[-1:])


def count_failed_refunds(subject: Payment, refunds: Sequence[Refund]) -> RefundTotals:
    return sum_refunds(
        subject, [make_refund(RefundValues(r.value, r.payment_value)) for r in refunds]
    )


def round_up(
    subject: Payment, totals: RefundTotals, requested: RefundAmount | None
) -> RefundValues:
    result = split_refund(subject, totals, requested)
    if requested is None or requested.unit != USD or result.value == totals.refundable:
        return result
    paid = totals.refunded + totals.refundable
    return RefundValues(-(-result.payment_value * paid // subject.value), result.payment_value)
