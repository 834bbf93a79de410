"""The open work in numbers, from the partial indexes of open rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select, text

from florin_server.db.engine.query import Op, Statement, operation
from florin_server.db.tables.payments import UNCONFIRMED_PREDICATE, UNSETTLED_PREDICATE
from florin_server.db.tables.payouts import OWED_PREDICATE
from florin_server.db.tables.tables import confirmation_table, payment_table, payout_table


@dataclass(frozen=True, slots=True)
class BacklogGroup:
    """The amount of open work of a kind on a chain (CAIP-2), and the time of the oldest."""

    chain_id: str
    state: str
    count: int
    oldest_us: int


_OFFERED = Statement(
    select(func.count()).select_from(payment_table).where(text(UNCONFIRMED_PREDICATE)), int
)
_CONFIRMED = Statement(
    select(
        confirmation_table.c.chain_id,
        confirmation_table.c.state,
        func.count().label("count"),
        func.min(confirmation_table.c.at_us).label("oldest_us"),
    )
    .where(text(UNSETTLED_PREDICATE))
    .group_by(confirmation_table.c.chain_id, confirmation_table.c.state),
    BacklogGroup,
)
_OWED = Statement(
    select(
        payout_table.c.chain_id,
        payout_table.c.status.label("state"),
        func.count().label("count"),
        func.min(payout_table.c.created_at_us).label("oldest_us"),
    )
    .where(text(OWED_PREDICATE))
    .group_by(payout_table.c.chain_id, payout_table.c.status),
    BacklogGroup,
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Unconfirmed payments, unsettled payments, and payouts that are owed."""

    unconfirmed_count: int
    payments: tuple[BacklogGroup, ...]
    payouts: tuple[BacklogGroup, ...]


@operation
def get_backlog() -> Op[Backlog]:
    """Return all open work; reads the index rows of the open work only."""
    unconfirmed = yield from _OFFERED.single()
    confirmed = tuple((yield from _CONFIRMED.all()))
    return Backlog(unconfirmed, confirmed, tuple((yield from _OWED.all())))
