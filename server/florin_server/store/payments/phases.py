"""When payments were accepted, and when they succeeded, by their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from florin_server.domain.payments.payment import Status
from florin_server.store.engine.query import Op, Statement, any_of, one_of, operation
from florin_server.store.tables.tables import payment_event


@dataclass(frozen=True, slots=True)
class Phases:
    """Times of a payment in microseconds, None for what did not happen.

    `accepted_us` is when a confirm was accepted, or when it was seen on its chain without one.
    """

    accepted_us: int | None
    succeeded_us: int | None


_event = payment_event.c
_FIRST = Statement(
    select(_event.payment_id, _event.status, func.min(_event.at_us))
    .where(
        any_of(_event.payment_id, "ids"),
        one_of(_event.status, (Status.PROCESSING, Status.SUCCEEDED)),
    )
    .group_by(_event.payment_id, _event.status)
)


@operation
def phases(payment_ids: Sequence[str]) -> Op[dict[str, Phases]]:
    """Return the phases of payments by id; unknown ids are left out."""
    times: dict[str, dict[Status, int]] = {}
    if payment_ids:
        for payment_id, status, at_us in (yield _FIRST(ids=payment_ids)):
            times.setdefault(payment_id, {})[Status(status)] = at_us
    return {
        payment_id: Phases(first.get(Status.PROCESSING), first.get(Status.SUCCEEDED))
        for payment_id, first in times.items()
    }
