"""What is not finished, in numbers, by the partial indexes of what is open."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select, text

from florin_server.store.engine.query import Op, Statement, operation
from florin_server.store.tables.payments import UNCONFIRMED, UNSETTLED
from florin_server.store.tables.payouts import OWED
from florin_server.store.tables.tables import confirm, payment, payout

_OFFERED = Statement(select(func.count()).select_from(payment).where(text(UNCONFIRMED)))
_CONFIRMED = Statement(
    select(confirm.c.chain_id, confirm.c.state, func.count(), func.min(confirm.c.at_us))
    .where(text(UNSETTLED))
    .group_by(confirm.c.chain_id, confirm.c.state)
)
_OWED = Statement(
    select(payout.c.chain_id, payout.c.status, func.count(), func.min(payout.c.created_at_us))
    .where(text(OWED))
    .group_by(payout.c.chain_id, payout.c.status)
)


@dataclass(frozen=True, slots=True)
class Heap:
    """How much of one kind is open on a chain (CAIP-2), and when the oldest of it began."""

    chain_id: str
    state: str
    count: int
    oldest_us: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Payments that nobody confirmed, those that are not settled, and payouts that are owed."""

    unconfirmed: int
    payments: tuple[Heap, ...]
    payouts: tuple[Heap, ...]


@operation
def backlog() -> Op[Backlog]:
    """All that is open; reads as many rows of the indexes as there is."""
    ((unconfirmed,),) = yield _OFFERED()
    confirmed = tuple(Heap(*row) for row in (yield _CONFIRMED()))
    return Backlog(unconfirmed, confirmed, tuple(Heap(*row) for row in (yield _OWED())))
