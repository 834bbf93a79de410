"""New options of a payment, up to the quotas of one caller and of all callers.

No option is ever deleted for another: a wallet may pay an old offer itself, and only the stored
option says which payment that money is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select

from florin_server.db.engine.query import Command, Op, Statement, insert, is_in, operation, param
from florin_server.db.tables.tables import option_count_table, payment_table
from florin_server.domain.payments.payment import PaymentOption
from florin_server.money.payments.store import payments

# the name of the count of all callers
_ALL = ""
# once half of the total quota is used, a caller gets a tenth of its share
_SCARCE, _SCARCE_DIVISOR = 2, 10


class _OriginCount(NamedTuple):
    origin: str
    n: int


# additions to a payment run one at a time, as the remaining quota depends on the others
_LOCK = Statement(
    select(payment_table.c.id).where(payment_table.c.id == param("payment_id")).with_for_update(),
    str,
)
_COUNTS = Statement(
    select(option_count_table.c.origin, option_count_table.c.n).where(
        option_count_table.c.payment_id == param("payment_id"),
        is_in(option_count_table.c.origin, "origins"),
    ),
    _OriginCount,
)
_new = insert(option_count_table)
_ADD = Command(
    _new.on_conflict_do_update(
        index_elements=["payment_id", "origin"],
        set_={"n": option_count_table.c.n + _new.excluded.n},
    )
)


@dataclass(frozen=True, slots=True)
class OptionQuota:
    """The most options of one payment: per caller, and of all callers."""

    per_origin: int
    per_payment: int

    def get_remaining(self, own: int, total: int) -> int:
        """Return how many more a caller with `own` options can add if all have `total`."""
        scarce = total * _SCARCE >= self.per_payment
        share = self.per_origin // _SCARCE_DIVISOR if scarce else self.per_origin
        return max(0, min(share - own, self.per_payment - total))


@operation
def add(
    payment_id: str, origin: str, new: Sequence[PaymentOption], quota: OptionQuota
) -> Op[list[PaymentOption]]:
    """Store options within the quota, in their order.

    Known options stay unchanged. Return what is now stored for the payers of `new`.
    """
    yield from _LOCK.all(payment_id=payment_id)
    stored = yield from payments.list_options(payment_id, {option.payer for option in new})
    stored_ids = {option.id for option in stored}
    fresh = [option for option in new if option.id not in stored_ids]
    counts = dict((yield from _COUNTS.all(payment_id=payment_id, origins=[_ALL, origin])))
    added_options = fresh[: quota.get_remaining(counts.get(origin, 0), counts.get(_ALL, 0))]
    if added_options:
        yield from payments.put_options(added_options)
        added = {"payment_id": payment_id, "n": len(added_options)}
        yield _ADD.bind_many([{**added, "origin": name} for name in (_ALL, origin)])
    return [*stored, *added_options]
