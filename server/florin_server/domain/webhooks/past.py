"""A payment as it was at each of its events, which are told in one order.

The places of a payment's own changes are its versions, from 0. Nothing changes one that succeeded
any more, so those of its refund follow its last version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from florin_server.domain.payments.payment import (
    Merchant,
    Payment,
    Refund,
    RefundStatus,
    Status,
)


@dataclass(frozen=True, slots=True)
class Past:
    """An event: what a payment was then, its type, and the version of the API it is told in."""

    payment: Payment
    merchant: Merchant
    event_type: str
    api_version: str
    at_us: int
    refund: Refund | None = None


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of a payment: its place, and what it is told as, None for nothing.

    The refund is how it was then; there is none in the payment's own events.
    """

    place: int
    at_us: int
    event_type: str | None
    status: Status
    refund: Refund | None = None


def as_of(payment: Payment, version: int, status: Status, at_us: int) -> Payment:
    """The payment as it was told when its change to a version was committed.

    What a status does not have is taken away; what it has was written with it, and never again.
    """
    if version == payment.version:
        return payment
    then = replace(payment, version=version, status=status, updated_at_us=at_us)
    if status is not Status.SUCCEEDED:
        then = replace(then, tx_id=None, settled_value=None)
    if status is not Status.FAILED:
        then = replace(then, failure_code=None, failure_detail=None)
    if status is not Status.CANCELLED:
        then = replace(then, cancelled_reason=None)
    if status is Status.REQUIRES_ACTION:
        then = replace(
            then,
            option_id=None,
            payer=None,
            provider_name=None,
            provider_icon=None,
            option_unit=None,
            option_value=None,
        )
    return then


def refund_as_of(
    refund: Refund, version: int, status: RefundStatus, at_us: int, tx_id: str | None
) -> Refund:
    """The refund as it was told when its change to a version was committed."""
    over = status in {RefundStatus.SUCCEEDED, RefundStatus.FAILED}
    done_us = at_us if over else None
    return replace(refund, version=version, status=status, tx_id=tx_id, completed_at_us=done_us)
