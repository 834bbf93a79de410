"""Money for payments that had ended: booked once, and owed back to whoever sent it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select

from florin_server.domain.held import HeldMoney
from florin_server.domain.journal import Posting
from florin_server.domain.payment import Option, Payment, Status
from florin_server.domain.payout import Payout
from florin_server.store import held, ledger, payouts
from florin_server.store.payments import option_of
from florin_server.store.query import Op, Statement, any_of, columns, param
from florin_server.store.tables import payment, payment_option

_LOCKED = Statement(select(*payment.c).where(payment.c.id == param("payment_id")).with_for_update())
_OFFERED_SINCE = Statement(
    select(*payment.c, *columns(payment_option, Option))
    .join_from(payment_option, payment, payment.c.id == payment_option.c.payment_id)
    .where(
        any_of(payment_option.c.payer, "payers"),
        payment_option.c.chain_id == param("chain_id"),
        payment.c.expires_at >= param("expires_at"),
    )
)
_OPTION_AT = len(payment.c)


def record(
    option: Option,
    event: tuple[str, str],
    postings: Sequence[Posting],
    back: Payout | HeldMoney,
    now_us: int,
) -> Op[bool | None]:
    """Books money that came late, with the payout that returns it; False if that was done before.

    Money of a blocked payer is held instead of returned. None if it is not late: the payment can
    still be paid, or this is what paid it. `event` is the transaction with the reference that it
    carries.
    """
    (row,) = yield _LOCKED(payment_id=option.payment_id)
    if not is_late(Payment(*row).at(now_us), option):
        return None
    if (known := (yield from held.of_event(option.payment_id, event_key(event)))) is not None:
        # it came in time, and the payment failed by a verdict about it
        yield from held.came_again(known, now_us)
        return False
    tx_hash, reference = event
    key = f"{ledger.LATE}:{option.payment_id}:{tx_hash}:{reference}"
    if not (yield from ledger.post(key, ledger.LATE, option.payment_id, tx_hash, postings, now_us)):
        return False
    if isinstance(back, HeldMoney):
        yield from held.put(back)
    else:
        yield from payouts.add(back)
    return True


def event_key(event: tuple[str, str]) -> str:
    """What tells a settlement event apart from all others of its payment."""
    return ":".join(event)


def is_late(seen: Payment, option: Option) -> bool:
    """True if money by an option has nothing to pay for any more."""
    if seen.status in {Status.PROCESSING, Status.SUCCEEDED}:
        return seen.option_id != option.id
    return seen.status in {Status.CANCELLED, Status.EXPIRED, Status.FAILED}


def offered_since(
    chain_id: str, payers: Collection[str], expires_at: int
) -> Op[list[tuple[Payment, Option]]]:
    """What accounts (CAIP-10) were offered on a chain for payments that end after a second.

    Looks at all that was ever offered.
    """
    rows = yield _OFFERED_SINCE(chain_id=chain_id, payers=payers, expires_at=expires_at)
    return [(Payment(*row[:_OPTION_AT]), option_of(row[_OPTION_AT:])) for row in rows]
