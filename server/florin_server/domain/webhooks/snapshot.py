"""A payment at the time of each of its events, which have one order.

The places of a payment's own events are its versions, from 0. No event changes the status of a
payment that ended, so events of its settlement, of its refunds and of its addresses follow its last
version, in the order in which they were committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from florin_server.domain.money import Amount
from florin_server.domain.payments.deposits import DepositReport
from florin_server.domain.payments.payment import (
    Payment,
    PaymentOption,
    PaymentStatus,
    Refund,
    RefundStatus,
)

_BASIS_POINTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class PaymentSettlement:
    """The merchant has received the money of a payment: `value` of `unit`, by `tx_id`."""

    at_us: int
    tx_id: str | None
    unit: str
    value: int


@dataclass(frozen=True, slots=True)
class PaymentEvent:
    """One event of a payment: its place, and the type that it is sent as, None if it is not sent.

    `status` is the payment's status after it. A refund has its state of that time. `simulated` is
    the amount that the payment would pay, without a buyer's commitment. `deposit` is the money that
    came to an address of the payment, or was sent back.
    """

    place: int
    at_us: int
    event_type: str | None
    status: PaymentStatus
    refund: Refund | None = None
    settlement: PaymentSettlement | None = None
    simulated: Amount | None = None
    deposit: DepositReport | None = None


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """A fee in minor units of an option's asset: `base`, and `basis_points` rounded up.

    `is_owed` is true if the merchant receives the whole value, and owes the fee.
    """

    base: int
    basis_points: int
    total: int
    is_owed: bool = False

    @property
    def percent(self) -> int:
        """Return the amount of the share."""
        return self.total - self.base

    @property
    def fraction(self) -> tuple[int, int]:
        """Return the share as numerator and denominator."""
        return self.basis_points, _BASIS_POINTS


@dataclass(frozen=True, slots=True)
class PaymentSnapshot:
    """A payment at the time of an event, at `at_us`.

    `payment` is the current row: the other members say how much of it was known then. Times are
    None for events that had not happened. `deposit` is set for events about one.
    """

    payment: Payment
    event_type: str
    place: int
    at_us: int
    status: PaymentStatus
    processing_at_us: int | None
    option_amount: Amount | None
    fee: FeeTerms | None
    ended_at_us: int | None
    settlement: PaymentSettlement | None
    refunds: tuple[Refund, ...]
    deposit: DepositReport | None = None

    @property
    def net_value(self) -> int:
        """Return what the merchant is expected to receive, in minor units of the option's asset."""
        gross = self.option_amount.value if self.option_amount else 0
        return gross - (self.fee.total if self.fee and not self.fee.is_owed else 0)


def find_fee_terms(option: PaymentOption | None) -> FeeTerms | None:
    """Return how an option's fee was computed; None if it has none."""
    if option is None or not option.fee:
        return None
    # a fee is never more than the paid amount
    base = min(option.fee_fixed, option.fee)
    return FeeTerms(base, option.fee_basis_points, option.fee, is_owed=option.is_fee_owed)


def snapshot_at(
    payment: Payment,
    option: PaymentOption | None,
    events: Sequence[PaymentEvent],
    event: PaymentEvent,
) -> PaymentSnapshot:
    """Return the payment at the time of one of its events; ValueError if that event is not sent.

    `events` are all events of the payment, in order.
    """
    if event.event_type is None:
        raise ValueError(f"event {event.place} of {payment.id} is not sent")
    before = [past_event for past_event in events if past_event.place <= event.place]
    refunds = {
        past_event.refund.id: past_event.refund
        for past_event in before
        if past_event.refund is not None
    }
    processing = _find_first_time(before, PaymentStatus.PROCESSING)
    if processing is None:
        # a payment with a simulated outcome succeeds at once
        processing = _find_first_time(before, PaymentStatus.SUCCEEDED)
    settlements = [
        past_event.settlement for past_event in before if past_event.settlement is not None
    ]
    return PaymentSnapshot(
        payment=payment,
        event_type=event.event_type,
        place=event.place,
        at_us=event.at_us,
        status=event.status,
        processing_at_us=processing,
        option_amount=_find_amount(payment, before),
        fee=find_fee_terms(option),
        ended_at_us=_find_first_time(before, event.status) if event.status.is_final else None,
        settlement=settlements[-1] if settlements else None,
        refunds=tuple(refunds.values()),
        deposit=event.deposit,
    )


def refund_at(
    refund: Refund, version: int, status: RefundStatus, at_us: int, tx_id: str | None
) -> Refund:
    """Return the refund at the time when its change to a version was committed."""
    over = status in {RefundStatus.SUCCEEDED, RefundStatus.FAILED}
    done_us = at_us if over else None
    return replace(refund, version=version, status=status, tx_id=tx_id, completed_at_us=done_us)


def _find_amount(payment: Payment, events: Sequence[PaymentEvent]) -> Amount | None:
    """Return what a payment pays, or would have paid."""
    if payment.option_unit is not None and payment.option_value is not None:
        return Amount(payment.option_unit, payment.option_value)
    return next((event.simulated for event in events if event.simulated is not None), None)


def _find_first_time(events: Sequence[PaymentEvent], status: PaymentStatus) -> int | None:
    """Return when a status was reached first."""
    return next((event.at_us for event in events if event.status is status), None)
