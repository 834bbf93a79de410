"""Outcomes that are given to test payments, without a wallet and without a chain."""

from __future__ import annotations

from sqlalchemy import func, select, text, update

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import CancelledReason, Payment, Status
from florin_server.domain.payments.state import Event, step
from florin_server.store.engine.columns import U256
from florin_server.store.engine.query import Op, Statement, operation, param
from florin_server.store.payments import payments
from florin_server.store.tables.payments import UNSETTLED, ConfirmState
from florin_server.store.tables.tables import confirm, payment

# told to nobody: the API has no code for it
FAILED = "simulated"

# locked before its confirm, as by everybody who ends a payment
_GET = Statement(select(payment).where(payment.c.id == param("payment_id")).with_for_update())
_HELD = Statement(
    select(confirm.c.payment_id).where(
        confirm.c.payment_id == param("id_"), confirm.c.state == ConfirmState.HELD
    )
)
_LEAVE = Statement(
    update(confirm)
    .where(
        confirm.c.payment_id == param("id_"),
        text(UNSETTLED),
        confirm.c.state != ConfirmState.HELD,
    )
    .values(state=ConfirmState.DONE)
    .returning(confirm.c.payment_id)
)
_SIMULATE = Statement(
    update(payment)
    .where(payment.c.id == param("payment_id"))
    .values(
        version=param("version"),
        updated_at_us=param("now_us"),
        status=param("after"),
        tx_id=param("tx"),
        # what a payment is bound to stays, whatever becomes of it
        option_unit=func.coalesce(payment.c.option_unit, param("paid_unit")),
        option_value=func.coalesce(payment.c.option_value, param("paid", U256)),
        failure_detail=param("reason"),
        cancelled_reason=param("cancelled_by"),
    )
    .returning(*payment.c)
)


def tx_id_of(thing_id: str) -> str:
    """What stands for the transaction of something that was simulated."""
    return f"test:{thing_id}"


@operation
def simulate(
    payment_id: str, event: Event, requested: Amount, now_us: int, request_id: str = ""
) -> Op[Payment]:
    """Gives a payment its outcome; whatever waited to be settled for it is left undone.

    A payment that has the outcome already stays as it is. One that succeeds has paid what it is
    bound to, else `requested`; of one that stalls, its event has that. FlorinError as for `step`,
    and invalid_state for one whose money is held: only the operator ends it. LookupError if there
    is no such payment.
    """
    rows = yield _GET(payment_id=payment_id)
    if not rows:
        raise LookupError(payment_id)
    kept = Payment(*rows[0])
    seen = kept.at(now_us)
    after = step(seen.status, event)
    if (yield _HELD(id_=payment_id)):
        raise FlorinError(Code.INVALID_STATE, f"Payment is {seen.status} and cannot be simulated")
    left = yield _LEAVE(id_=payment_id)
    if after is seen.status and not left:
        return seen
    paid = requested if after is Status.SUCCEEDED else None
    # one that a reorganisation undid is over all the same: nothing happens to it any more
    over = kept.status.is_final
    rows = yield _SIMULATE(
        payment_id=payment_id,
        version=kept.version if over else kept.version + 1,
        now_us=kept.updated_at_us if over else now_us,
        after=after,
        tx=tx_id_of(payment_id) if paid else None,
        paid_unit=paid.unit if paid else None,
        paid=paid.value if paid else None,
        reason=FAILED if after is Status.FAILED else None,
        cancelled_by=CancelledReason.BY_MERCHANT if after is Status.CANCELLED else None,
    )
    changed = Payment(*rows[0])
    if not over:
        # no buyer committed to anything: webhooks show what would be paid
        stalls = after is Status.PROCESSING and changed.option_unit is None
        detail = {"unit": requested.unit, "value": str(requested.value)} if stalls else None
        yield from payments.put_events([payments.event_of(changed, event, detail, request_id)])
    return changed
