"""Give a buyer's money back, all of it or a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from florin_server.domain.caip import parse_asset
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus, Status
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.payouts.refund_amounts import (
    RefundTotals,
    RequestedRefund,
    split_refund,
    sum_refunds,
)
from florin_server.domain.refusals import refunded_payment_unknown, upgrade_unfinished
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import once
from florin_server.flows.payments.load import visible
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments, simulation
from florin_server.store.payments.idempotency import Replay
from florin_server.store.payouts import payouts, refunds
from florin_server.store.upgrades import older_releases

_UNIT = "caip19/"


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """What a merchant asks for; without an amount all that was paid goes back."""

    payment_id: str
    amount: RequestedRefund | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CreatedRefund:
    """A new refund, and the payment's own unit, in which `payment_value` is."""

    refund: Refund
    payment_unit: str


async def refund(
    app: App, caller: Caller, request: RefundRequest, receipt: Callable[[CreatedRefund], bytes]
) -> CreatedRefund | Replay:
    """Request that money of a succeeded payment goes back to the account that paid it.

    The refund is pending until it is paid out; that of a payment whose success was simulated, which
    moved nothing, succeeds at once and moves nothing either. A request that equals an earlier one
    and has its idempotency key gets its answer. already_refunded for a request without an amount
    after any refund, and for more than what is left of the payment. 503 for a payment's second one
    while processes of an older release are alive.
    """
    outcome = await once(app, caller, _request(app, caller, request), receipt)
    if isinstance(outcome, CreatedRefund):
        app.wake_payouts()
        app.webhooks.asked.set()
    return outcome


async def list_refunds(app: App, payment: Payment) -> Sequence[Refund]:
    """Return the refunds of a payment, the oldest first."""
    if payment.status is not Status.SUCCEEDED:
        return ()
    return await app.store.read(refunds.list_refunds(payment.id))


@operation
def _request(app: App, caller: Caller, request: RefundRequest) -> Op[CreatedRefund]:
    payment = yield from payments.one(request.payment_id)
    if payment is None or not visible(caller, payment):
        raise refunded_payment_unknown(wcp_profile=caller.wcp_profile)
    if payment.status is not Status.SUCCEEDED:
        raise FlorinError(Code.PAYMENT_NOT_SUCCEEDED)
    # two requests at once must not be promised the same money
    yield from refunds.lock(payment.id)
    existing = yield from refunds.list_refunds(payment.id)
    totals = sum_refunds(payment, existing)
    if existing and request.amount is None:
        raise totals.exceeded()
    values = split_refund(payment, totals, request.amount)
    _check_count(app, totals, existing)
    if existing and (yield from older_releases.is_held()):
        # those know of one refund of a payment, and could not tell the end of two
        raise upgrade_unfinished()
    new_id, now_us = short_id("rfnd_", app.randbytes), app.clock.now_us()
    simulated = payment.tx_id == simulation.tx_id_of(payment.id)
    new = Refund(
        id=new_id,
        payment_id=payment.id,
        unit=totals.unit,
        value=values.value,
        account=payment.payer,
        status=RefundStatus.SUCCEEDED if simulated else RefundStatus.PENDING,
        tx_id=simulation.tx_id_of(new_id) if simulated else None,
        created_at_us=now_us,
        completed_at_us=now_us if simulated else None,
        version=(yield from refunds.next_version(payment.id)),
        ordinal=len(existing) + 1,
        reason=request.reason,
        payment_value=values.payment_value,
    )
    yield from refunds.create(new)
    if not simulated:
        yield from payouts.add(_payout(payment, new))
    return CreatedRefund(new, payment.unit)


def _check_count(app: App, totals: RefundTotals, existing: Sequence[Refund]) -> None:
    """Refuse one refund too many: each costs gas. The operator called off those that failed."""
    most = app.settings.refunds_max
    if sum(refund.status is not RefundStatus.FAILED for refund in existing) >= most:
        raise totals.exceeded(f"A payment takes at most {most} refunds", maxRefunds=str(most))


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
