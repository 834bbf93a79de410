"""A merchant asks for a buyer's money to be paid back."""

from __future__ import annotations

from collections.abc import Callable

from florin_server.domain.caip import parse_asset
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus, Status
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.refusals import refunded_payment_unknown
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import once
from florin_server.flows.payments.load import visible
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments, simulation
from florin_server.store.payments.idempotency import Replay
from florin_server.store.payouts import payouts, refunds

_UNIT = "caip19/"


async def refund(
    app: App, caller: Caller, payment_id: str, receipt: Callable[[Refund], bytes]
) -> Refund | Replay:
    """Asks for the full amount of a succeeded payment to go back to the account that paid it.

    The refund is pending until it is paid out; that of a payment whose success was simulated, which
    moved nothing, succeeds at once and moves nothing either. A payment has one refund: a second
    request is refused, unless it is equal to the first and comes with its idempotency key.
    """
    outcome = await once(app, caller, _request(app, caller, payment_id), receipt)
    if isinstance(outcome, Refund):
        app.wake_payouts()
        app.webhooks.asked.set()
    return outcome


async def refund_of(app: App, payment: Payment) -> Refund | None:
    """The refund of a payment, if there is one."""
    if payment.status is not Status.SUCCEEDED:
        return None
    return await app.store.read(refunds.refund(payment.id))


@operation
def _request(app: App, caller: Caller, payment_id: str) -> Op[Refund]:
    payment = yield from payments.one(payment_id)
    if payment is None or not visible(caller, payment):
        raise refunded_payment_unknown(wcp_profile=caller.wcp_profile)
    if payment.status is not Status.SUCCEEDED:
        raise FlorinError(Code.PAYMENT_NOT_SUCCEEDED)
    if payment.option_unit is None or payment.option_value is None:
        raise RuntimeError(f"payment {payment.id} succeeded without an amount")
    new_id, now_us = short_id("rfnd_", app.randbytes), app.clock.now_us()
    simulated = payment.tx_id == simulation.tx_id_of(payment.id)
    new = Refund(
        id=new_id,
        payment_id=payment.id,
        unit=payment.option_unit,
        value=payment.option_value,
        account=payment.payer,
        status=RefundStatus.SUCCEEDED if simulated else RefundStatus.PENDING,
        tx_id=simulation.tx_id_of(new_id) if simulated else None,
        created_at_us=now_us,
        completed_at_us=now_us if simulated else None,
    )
    if not (yield from refunds.create(new)):
        raise FlorinError(Code.ALREADY_REFUNDED)
    if not simulated:
        yield from payouts.add(_payout(payment, new))
    return new


def _payout(payment: Payment, new: Refund) -> Payout:
    """What pays a refund."""
    asset = new.unit.removeprefix(_UNIT)
    if new.account is None:
        raise RuntimeError(f"payment {payment.id} was paid by nobody")
    return Payout(
        id=new.id,
        kind=PayoutKind.REFUND,
        merchant_id=payment.merchant_id,
        payment_id=payment.id,
        live=payment.live,
        chain_id=str(parse_asset(asset).chain),
        asset=asset,
        value=new.value,
        account=new.account,
        created_at_us=new.created_at_us,
    )
