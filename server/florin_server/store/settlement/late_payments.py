"""Money for payments that had ended: booked once, and owed back to whoever sent it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Option, Payment, Status
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.store.engine.query import Op, Statement, operation, param
from florin_server.store.ledger import ledger
from florin_server.store.payouts import held_money, payouts
from florin_server.store.tables.tables import payment

_LOCKED = Statement(select(*payment.c).where(payment.c.id == param("payment_id")).with_for_update())
_PAID = frozenset({Status.PROCESSING, Status.SUCCEEDED})


@operation
def record(
    option: Option,
    event: tuple[str, str],
    postings: Sequence[Posting],
    back: Payout | HeldMoney,
    now_us: int,
    *,
    exact: bool,
    in_time: bool,
) -> Op[bool | None]:
    """Books money that came late, with the payout that returns it; False if that was done before.

    Money of a blocked payer is held instead of returned. None if it is not late: the payment can
    still be paid, or this is what paid it. Neither is so of money that is not `exact`, since it was
    sent in another way than was offered; the first is not so of what did not come `in_time`.
    `event` is the transaction, with what tells its events apart however often they are read.
    """
    (row,) = yield _LOCKED(payment_id=option.payment_id)
    seen = Payment(*row).at(now_us)
    if exact and (is_bound(seen, option) or (in_time and not is_late(seen, option))):
        return None
    tx_hash, name = event
    if (known := (yield from held_money.of_event(option.payment_id, name))) is not None:
        # it came in time, and the payment failed by a verdict about it
        yield from held_money.came_again(known, now_us)
        return False
    key, of = journals.late(option.payment_id, name), option.payment_id
    if not (yield from ledger.post(key, journals.Kind.LATE, of, tx_hash, postings, now_us)):
        return False
    if isinstance(back, HeldMoney):
        yield from held_money.put(back)
    else:
        yield from payouts.add(back)
    return True


def is_bound(seen: Payment, option: Option) -> bool:
    """True if it is by this option that a payment is paid."""
    return seen.status in _PAID and seen.option_id == option.id


def is_late(seen: Payment, option: Option) -> bool:
    """True if money by an option has nothing to pay for any more."""
    if seen.status in _PAID:
        return not is_bound(seen, option)
    return seen.status in {Status.CANCELLED, Status.EXPIRED, Status.FAILED}
