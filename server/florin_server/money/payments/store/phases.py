"""The times at which payments were accepted and succeeded, according to their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import func, select

from florin_server.db.engine.query import Op, Statement, is_in, is_one_of, operation
from florin_server.db.tables.tables import payment_event_table
from florin_server.domain.payments.payment import PaymentStatus


@dataclass(frozen=True, slots=True)
class PaymentPhases:
    """Times of a payment in microseconds, None if it did not happen.

    `accepted_us` is when a confirm was accepted, or when the payment was seen on its chain without
    a confirm.
    """

    accepted_us: int | None
    succeeded_us: int | None


_event = payment_event_table.c


class _PhaseStart(NamedTuple):
    payment_id: str
    status: PaymentStatus
    at_us: int


_FIRST = Statement(
    select(_event.payment_id, _event.status, func.min(_event.at_us).label("at_us"))
    .where(
        is_in(_event.payment_id, "ids"),
        is_one_of(_event.status, (PaymentStatus.PROCESSING, PaymentStatus.SUCCEEDED)),
    )
    .group_by(_event.payment_id, _event.status),
    _PhaseStart,
)


@operation
def find_phases(payment_ids: Sequence[str]) -> Op[dict[str, PaymentPhases]]:
    """Return the phases of payments by id; unknown ids are left out."""
    times: dict[str, dict[PaymentStatus, int]] = {}
    if payment_ids:
        for payment_id, status, at_us in (yield from _FIRST.all(ids=payment_ids)):
            times.setdefault(payment_id, {})[status] = at_us
    return {
        payment_id: PaymentPhases(
            first.get(PaymentStatus.PROCESSING), first.get(PaymentStatus.SUCCEEDED)
        )
        for payment_id, first in times.items()
    }
