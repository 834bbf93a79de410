"""A merchant asks for a buyer's money to be paid back."""

from __future__ import annotations

from collections.abc import Callable

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.payment import Payment, Refund, RefundStatus, Status
from florin_server.domain.refusals import refunded_payment_unknown
from florin_server.flows.app import App, Caller
from florin_server.flows.idempotent import once
from florin_server.flows.load import visible
from florin_server.store import payments, refunds
from florin_server.store.idempotency import Replay
from florin_server.store.query import Op


async def refund(
    app: App, caller: Caller, payment_id: str, receipt: Callable[[Refund], bytes]
) -> Refund | Replay:
    """Asks for the full amount of a succeeded payment to go back to the account that paid it.

    The refund is pending until it is paid out. A payment has one refund: a second request is
    refused, unless it is equal to the first and comes with its idempotency key.
    """
    return await once(app, caller, _request(app, caller, payment_id), receipt)


async def refund_of(app: App, payment: Payment) -> Refund | None:
    """The refund of a payment, if there is one."""
    if payment.status is not Status.SUCCEEDED:
        return None
    return await app.store.read(refunds.refund(payment.id))


def _request(app: App, caller: Caller, payment_id: str) -> Op[Refund]:
    payment = (yield from payments.get((payment_id,))).get(payment_id)
    if payment is None or not visible(caller, payment):
        raise refunded_payment_unknown(deployed=caller.deployed)
    if payment.status is not Status.SUCCEEDED:
        raise FlorinError(Code.PAYMENT_NOT_SUCCEEDED)
    if payment.option_unit is None or payment.option_value is None:
        raise RuntimeError(f"payment {payment.id} succeeded without an amount")
    new = Refund(
        id=short_id("rfnd_", app.randbytes),
        payment_id=payment.id,
        unit=payment.option_unit,
        value=payment.option_value,
        account=payment.payer,
        status=RefundStatus.PENDING,
        tx_id=None,
        created_at_us=app.clock.now_us(),
    )
    if not (yield from refunds.create(new)):
        raise FlorinError(Code.ALREADY_REFUNDED)
    return new
