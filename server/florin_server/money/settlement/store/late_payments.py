"""Money for payments that had ended: booked once, and owed back to its sender."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.tables.tables import payment_table
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import held_money, payouts

_LOCKED = Statement(
    select(*payment_table.c).where(payment_table.c.id == param("payment_id")).with_for_update(),
    Payment,
)
_PAID = frozenset({PaymentStatus.PROCESSING, PaymentStatus.SUCCEEDED})


@operation
def record(
    option: PaymentOption,
    event: tuple[str, str],
    postings: Sequence[LedgerPosting],
    held_or_payout: Payout | HeldMoney,
    now_us: int,
    *,
    exact: bool,
    in_time: bool,
) -> Op[bool | None]:
    """Book late money, with the payout that returns it; return False if already booked.

    Money of a blocked payer is held instead of returned. Return None if the money is not late: the
    payment can still be paid, or this money paid it. Neither applies to money that is not `exact`,
    as it was sent by another method than offered. The first does not apply to money that did not
    come `in_time`. `event` is the transaction, and a name that identifies the event however often
    it is read.
    """
    stored_payment = yield from _LOCKED.single(payment_id=option.payment_id)
    current_payment = stored_payment.with_expiry(now_us)
    if exact and (
        is_bound(current_payment, option) or (in_time and not is_late(current_payment, option))
    ):
        return None
    tx_hash, name = event
    if (held := (yield from held_money.find_by_event(option.payment_id, name))) is not None:
        # it came in time, and the payment failed by a decision about it
        yield from held_money.rebook_returned(held, now_us)
        return False
    key, payment_id = journals.late_key(option.payment_id, name), option.payment_id
    if not (
        yield from ledger.post(
            key, journals.JournalKind.LATE, payment_id, tx_hash, postings, now_us
        )
    ):
        return False
    if isinstance(held_or_payout, HeldMoney):
        yield from held_money.put(held_or_payout)
    else:
        yield from payouts.add(held_or_payout)
    return True


def is_bound(current_payment: Payment, option: PaymentOption) -> bool:
    """Return True if this option pays the payment."""
    return current_payment.status in _PAID and current_payment.option_id == option.id


def is_late(current_payment: Payment, option: PaymentOption) -> bool:
    """Return True if money of an option has nothing left to pay."""
    if current_payment.status in _PAID:
        return not is_bound(current_payment, option)
    return current_payment.status in {
        PaymentStatus.CANCELLED,
        PaymentStatus.EXPIRED,
        PaymentStatus.FAILED,
    }
