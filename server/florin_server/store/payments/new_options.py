"""New options of a payment, as many as are kept for one caller and for all of them.

None is ever deleted for another: a wallet may pay by itself what it was offered once, and only the
stored option tells what such money is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from florin_server.domain.payments.payment import Option
from florin_server.store.engine.query import Op, Statement, any_of, insert, operation, param
from florin_server.store.payments import payments
from florin_server.store.tables.tables import option_count, payment

# under this name all callers count together
_ALL = ""
# once half of what all may have is used, a caller gets a tenth of its share
_SCARCE, _LESS = 2, 10

# who adds to a payment does so alone: what there is room for depends on the others
_LOCK = Statement(select(payment.c.id).where(payment.c.id == param("payment_id")).with_for_update())
_COUNTS = Statement(
    select(option_count.c.origin, option_count.c.n).where(
        option_count.c.payment_id == param("payment_id"), any_of(option_count.c.origin, "origins")
    )
)
_new = insert(option_count)
_ADD = Statement(
    _new.on_conflict_do_update(
        index_elements=["payment_id", "origin"],
        set_={"n": option_count.c.n + _new.excluded.n},
    )
)


@dataclass(frozen=True, slots=True)
class Room:
    """How many options of one payment are kept: for one caller, and for all of them."""

    per_origin: int
    per_payment: int

    def left(self, own: int, total: int) -> int:
        """How many more, if a caller has so many and all have `total`."""
        scarce = total * _SCARCE >= self.per_payment
        share = self.per_origin // _LESS if scarce else self.per_origin
        return max(0, min(share - own, self.per_payment - total))


@operation
def add(payment_id: str, origin: str, new: Sequence[Option], room: Room) -> Op[list[Option]]:
    """Stores options as far as there is room, the first ones first.

    Those that are known stay as they are. Answers what is stored now for the payers of `new`.
    """
    yield _LOCK(payment_id=payment_id)
    stored = yield from payments.options(payment_id, {one.payer for one in new})
    known = {one.id for one in stored}
    fresh = [one for one in new if one.id not in known]
    rows = yield _COUNTS(payment_id=payment_id, origins=[_ALL, origin])
    counts: dict[str, int] = dict(rows)
    kept = fresh[: room.left(counts.get(origin, 0), counts.get(_ALL, 0))]
    if kept:
        yield from payments.put_options(kept)
        added = {"payment_id": payment_id, "n": len(kept)}
        yield _ADD.many([{**added, "origin": name} for name in (_ALL, origin)])
    return [*stored, *kept]
