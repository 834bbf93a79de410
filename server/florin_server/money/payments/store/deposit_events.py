"""Events about money at payments' own addresses: each deposit and each return has one, ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import func, select, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_one_of,
    operation,
    param,
)
from florin_server.db.tables.tables import deposit_event_table, payment_table
from florin_server.domain.payments.deposits import Deposit, DepositReport
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.outbox.store import events, outbox
from florin_server.money.payments.store.payments import put_events, to_event_row

# dust costs its sender little: a payment reports no more deposits than this
SEEN_MAX: Final = 100


class NamedReport(NamedTuple):
    """A report of a payment; `name` identifies the deposit or the return, whatever its block."""

    payment_id: str
    name: str
    cause: PaymentStateEvent
    report: DepositReport


_row = deposit_event_table.c
_ADD = Command(insert(deposit_event_table))
_LOCK = Statement(
    select(payment_table).where(payment_table.c.id == param("payment_id")).with_for_update(),
    Payment,
)
_IS_KNOWN = Statement(
    select(_row.name).where(_row.payment_id == param("payment_id"), _row.name == param("name_")),
    str,
)
_COUNT_SEEN = Statement(
    select(func.count()).where(
        _row.payment_id == param("payment_id"), _row.cause == PaymentStateEvent.DEPOSIT_SEEN
    ),
    int,
)
_COUNT_LATER = Statement(
    select(events.count_later_events()).where(payment_table.c.id == param("payment_id")), int
)
_TOUCH = Statement(
    update(payment_table)
    .where(
        payment_table.c.id == param("payment_id"),
        is_one_of(
            payment_table.c.status, (PaymentStatus.REQUIRES_ACTION, PaymentStatus.PROCESSING)
        ),
    )
    .values(version=payment_table.c.version + 1, updated_at_us=param("now_us"))
    .returning(*payment_table.c),
    Payment,
)


def name_deposit(chain_id: str, deposit: Deposit) -> str:
    """Return the name of a deposit; it stays the same if a reorganization moves its transaction."""
    # money without a transaction is reported once its block is final
    place = deposit.tx_hash or f"block {deposit.block_number}"
    return f"{chain_id}:{deposit.address} {deposit.asset} {place} {deposit.position}"


@operation
def record(reports: Iterable[NamedReport], now_us: int) -> Op[list[Payment]]:
    """Record events that are not recorded yet, and queue their deliveries; part of an operation.

    Return the changed payments that have not ended, as they are now.
    """
    changed: dict[str, Payment] = {}
    # all lockers lock payments in one order
    for payment_id, name, cause, report in sorted(reports, key=lambda item: item.payment_id):
        payment = yield from _LOCK.first(payment_id=payment_id)
        if payment is None or (yield from _IS_KNOWN.any(payment_id=payment_id, name_=name)):
            continue
        if cause is PaymentStateEvent.DEPOSIT_SEEN and (
            (yield from _COUNT_SEEN.single(payment_id=payment_id)) >= SEEN_MAX
        ):
            continue
        detail = report.to_json()
        row = {
            "payment_id": payment_id,
            "name": name,
            "cause": str(cause),
            "at_us": now_us,
            "partner_id": payment.partner_id,
            "live": payment.live,
        }
        touched = yield from _TOUCH.first(payment_id=payment_id, now_us=now_us)
        if touched is not None:
            yield _ADD(**row, version=None, detail=None)
            yield from put_events([to_event_row(touched, cause, detail)])
            changed[payment_id] = touched
        else:
            version = (yield from _COUNT_LATER.single(payment_id=payment_id)) + 1
            yield _ADD(**row, version=version, detail=detail)
            yield from outbox.enqueue_later_change(payment_id, now_us)
    return list(changed.values())
