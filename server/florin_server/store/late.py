"""Money for payments that had ended: booked once, and owed back to whoever sent it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import select

from florin_server.domain.journal import Posting
from florin_server.domain.payment import Option, Payment, Status
from florin_server.domain.payout import Payout
from florin_server.store import ledger, payouts
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
_PAID = frozenset({Status.PROCESSING, Status.SUCCEEDED})


def record(
    option: Option,
    event: tuple[str, str],
    postings: Sequence[Posting],
    back: Payout,
    now_us: int,
    *,
    exact: bool,
    in_time: bool,
) -> Op[bool | None]:
    """Books money that came late, with the payout that returns it; False if that was done before.

    None if it is not late: the payment can still be paid, or this is what paid it. Neither is so of
    money that is not `exact`, since it was sent in another way than was offered; the first is not
    so of what did not come `in_time`. `event` is the transaction, with what tells its events apart
    however often they are read.
    """
    (row,) = yield _LOCKED(payment_id=option.payment_id)
    seen = Payment(*row).at(now_us)
    if exact and (is_bound(seen, option) or (in_time and not is_late(seen, option))):
        return None
    tx_hash, name = event
    key = f"{ledger.LATE}:{option.payment_id}:{name}"
    if not (yield from ledger.post(key, ledger.LATE, option.payment_id, tx_hash, postings, now_us)):
        return False
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


def offered_since(
    chain_id: str, payers: Collection[str], expires_at: int
) -> Op[list[tuple[Payment, Option]]]:
    """What accounts (CAIP-10) were offered on a chain for payments that end after a second.

    Looks at all that was ever offered.
    """
    rows = yield _OFFERED_SINCE(chain_id=chain_id, payers=payers, expires_at=expires_at)
    return [(Payment(*row[:_OPTION_AT]), option_of(row[_OPTION_AT:])) for row in rows]
