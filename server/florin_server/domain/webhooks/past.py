"""A payment as it was when it came to an earlier version."""

from __future__ import annotations

from dataclasses import dataclass, replace

from florin_server.domain.payments.payment import Merchant, Payment, Status


@dataclass(frozen=True, slots=True)
class Past:
    """An event: what a payment was then, its type, and the version of the API it is told in."""

    payment: Payment
    merchant: Merchant
    event_type: str
    api_version: str
    at_us: int


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
