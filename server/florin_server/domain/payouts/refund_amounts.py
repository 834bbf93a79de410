"""The amount of a refund, in whole minor units.

A request names token units of the paid asset, or minor units of the payment's own currency. The
latter are converted at the payment's own rate, `option_value / value`, and rounded down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from florin_server.domain.caip import canonicalize_asset
from florin_server.domain.errors import ApiError, ErrorCode, validation_error
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus

_ASSET = "caip19/"
_DIGITS = re.compile(r"[1-9][0-9]{0,77}", re.ASCII)
_FORM = 'must be whole minor units above zero as a string ("1250" for 12.50 USD)'


@dataclass(frozen=True, slots=True)
class RefundAmount:
    """The amount of a refund request; `value` is text as the caller wrote it."""

    unit: str
    value: str


class RefundProgress(StrEnum):
    """The refunded part of a payment, as its buyer sees it."""

    REFUNDING = "refunding"
    REFUNDED = "refunded"
    PARTLY = "partly_refunded"


@dataclass(frozen=True, slots=True)
class RefundTotals:
    """The paid amount of a payment, split into what is refunded and what is left.

    `unit` is the paid asset. `refunded` and `refundable` are token units, the `payment_` pair is
    in the payment's own unit. Failed refunds count as left.
    """

    unit: str
    refunded: int
    refundable: int
    payment_refunded: int
    payment_refundable: int

    def already_refunded_error(self, message: str = "", **more: str) -> ApiError:
        """Return already_refunded with the rest, and more, in its details."""
        details = {
            "refunded": str(self.refunded),
            "refundable": str(self.refundable),
            "unit": self.unit,
            **more,
        }
        return ApiError(ErrorCode.ALREADY_REFUNDED, message, details=details)


@dataclass(frozen=True, slots=True)
class RefundValues:
    """One refund: token units, and minor units of the payment's own unit at its own rate."""

    value: int
    payment_value: int


def sum_refunds(payment: Payment, refunds: Iterable[Refund]) -> RefundTotals:
    """Return what is refunded of a succeeded payment and what is left."""
    if payment.option_unit is None or payment.option_value is None:
        raise RuntimeError(f"payment {payment.id} succeeded without an amount")
    active = [refund for refund in refunds if refund.status is not RefundStatus.FAILED]
    refunded = sum(refund.value for refund in active)
    payment_refunded = sum(get_payment_value(payment, refund) for refund in active)
    refundable = payment.option_value - refunded
    # token refunds are rounded down in the payment's unit: both sums are bounds
    left = min(payment.value - payment_refunded, refundable * payment.value // payment.option_value)
    return RefundTotals(payment.option_unit, refunded, refundable, payment_refunded, max(0, left))


def get_payment_value(payment: Payment, refund: Refund) -> int:
    """Return what a refund gives back in minor units of the payment's own unit.

    Releases up to 0.3 write none, and give back the whole payment.
    """
    return payment.value if refund.value == payment.option_value else refund.payment_value


def describe_progress(payment: Payment, refunds: Iterable[Refund]) -> RefundProgress | None:
    """Return how far a succeeded payment is refunded; None if nothing goes back."""
    active = [refund for refund in refunds if refund.status is not RefundStatus.FAILED]
    if not active:
        return None
    if sum_refunds(payment, active).refundable:
        return RefundProgress.PARTLY
    over = all(refund.status is RefundStatus.SUCCEEDED for refund in active)
    return RefundProgress.REFUNDED if over else RefundProgress.REFUNDING


def split_refund(
    payment: Payment, totals: RefundTotals, amount: RefundAmount | None
) -> RefundValues:
    """Return what a request gives back; None requests all that was paid.

    params_validation for a malformed amount or another unit, already_refunded for more than the
    rest.
    """
    paid = totals.refunded + totals.refundable
    if amount is None:
        return RefundValues(paid, payment.value)
    if _is_asset(amount.unit, totals.unit):
        value = _parse_value(amount.value)
        if value > totals.refundable:
            raise totals.already_refunded_error(
                "Refund exceeds the refundable amount of the payment"
            )
        if value == totals.refundable:
            return RefundValues(value, payment.value - totals.payment_refunded)
        return RefundValues(value, min(value * payment.value // paid, totals.payment_refundable))
    if amount.unit != payment.unit:
        raise validation_error("amount.unit", f"must be {_describe_units(payment, totals)}")
    payment_value = _parse_value(amount.value)
    if payment_value > totals.payment_refundable:
        raise totals.already_refunded_error("Refund exceeds the refundable amount of the payment")
    if payment_value == payment.value - totals.payment_refunded:
        # then nothing of the payment is left, including what earlier refunds rounded off
        return RefundValues(totals.refundable, payment_value)
    value = payment_value * paid // payment.value
    if value < 1:
        raise validation_error(
            "amount.value",
            "converts to less than one minor unit of the paid asset: refund a larger amount",
        )
    return RefundValues(value, payment_value)


def _is_asset(unit: str, paid_unit: str) -> bool:
    if not unit.startswith(_ASSET):
        return False
    try:
        named = canonicalize_asset(unit.removeprefix(_ASSET), checksum=False)
    except ValueError:
        return False
    return named == canonicalize_asset(paid_unit.removeprefix(_ASSET), checksum=False)


def _parse_value(text: str) -> int:
    if _DIGITS.fullmatch(text) is None:
        raise validation_error("amount.value", _FORM)
    return int(text)


def _describe_units(payment: Payment, totals: RefundTotals) -> str:
    if payment.unit == totals.unit:
        return f"{totals.unit} (the paid asset)"
    return f"{totals.unit} (the paid asset) or {payment.unit} (the currency of the payment)"
