"""Simulated outcomes of test payments, without a wallet or a chain."""

from __future__ import annotations

from sqlalchemy import func, select, text, update

from florin_server.db.engine.columns import U256
from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.tables.payments import UNSETTLED_PREDICATE, ConfirmationState
from florin_server.db.tables.tables import confirmation_table, payment_table
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import CancellationReason, Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent, apply_event
from florin_server.domain.refusals import payment_archived_error
from florin_server.money.payments.store import payments

# internal only: the API has no code for it
FAILURE_DETAIL = "simulated"

# locked before its confirm, as for every end of a payment
_GET = Statement(
    select(payment_table).where(payment_table.c.id == param("payment_id")).with_for_update(),
    Payment,
)
_HELD = Statement(
    select(confirmation_table.c.payment_id).where(
        confirmation_table.c.payment_id == param("id_"),
        confirmation_table.c.state == ConfirmationState.HELD,
    ),
    str,
)
_LEAVE = Statement(
    update(confirmation_table)
    .where(
        confirmation_table.c.payment_id == param("id_"),
        text(UNSETTLED_PREDICATE),
        confirmation_table.c.state != ConfirmationState.HELD,
    )
    .values(state=ConfirmationState.DONE)
    .returning(confirmation_table.c.payment_id),
    str,
)
_SIMULATE = Statement(
    update(payment_table)
    .where(payment_table.c.id == param("payment_id"))
    .values(
        version=param("version"),
        updated_at_us=param("now_us"),
        status=param("after"),
        tx_id=param("tx"),
        # a bound payment keeps its option, whatever the outcome
        option_unit=func.coalesce(payment_table.c.option_unit, param("paid_unit")),
        option_value=func.coalesce(payment_table.c.option_value, param("paid", U256)),
        failure_detail=param("reason"),
        cancelled_reason=param("cancelled_by"),
    )
    .returning(*payment_table.c),
    Payment,
)


def format_tx_id(subject_id: str) -> str:
    """Return the transaction id of a simulated payment or refund."""
    return f"test:{subject_id}"


@operation
def simulate(
    payment_id: str, event: PaymentStateEvent, requested: Amount, now_us: int, request_id: str = ""
) -> Op[Payment]:
    """Give a payment its outcome, and drop any settlement that waits for it.

    A payment that already has the outcome stays unchanged. A payment that succeeds has paid its
    bound option, or else `requested`; the event of a payment that stalls contains it. Raise
    ApiError like `apply_event`, and invalid_state for a payment with held money, which only the
    operator ends, and for one that is only in the archive.
    """
    payment = yield from _GET.first(payment_id=payment_id)
    if payment is None:
        raise payment_archived_error()
    current_payment = payment.with_expiry(now_us)
    after = apply_event(current_payment.status, event)
    if (yield from _HELD.any(id_=payment_id)):
        raise ApiError(
            ErrorCode.INVALID_STATE, f"Payment is {current_payment.status} and cannot be simulated"
        )
    left = yield from _LEAVE.all(id_=payment_id)
    if after is current_payment.status and not left:
        return current_payment
    paid = requested if after is PaymentStatus.SUCCEEDED else None
    # a payment that a reorg undid keeps its end: its status never changes again
    over = payment.status.is_final
    changed_payment = yield from _SIMULATE.single(
        payment_id=payment_id,
        version=payment.version if over else payment.version + 1,
        now_us=payment.updated_at_us if over else now_us,
        after=after,
        tx=format_tx_id(payment_id) if paid else None,
        paid_unit=paid.unit if paid else None,
        paid=paid.value if paid else None,
        reason=FAILURE_DETAIL if after is PaymentStatus.FAILED else None,
        cancelled_by=CancellationReason.BY_MERCHANT if after is PaymentStatus.CANCELLED else None,
    )
    if not over:
        # no buyer committed to a payment: webhooks show what would be paid
        stalls = after is PaymentStatus.PROCESSING and changed_payment.option_unit is None
        detail = {"unit": requested.unit, "value": str(requested.value)} if stalls else None
        yield from payments.put_events(
            [payments.to_event_row(changed_payment, event, detail, request_id)]
        )
    return changed_payment
