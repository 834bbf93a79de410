"""Give a buyer's money back, all of it or a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.caip import parse_asset
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import (
    Payment,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.payouts.refund_amounts import (
    RefundAmount,
    RefundTotals,
    split_refund,
    sum_refunds,
)
from florin_server.domain.refusals import (
    payment_archived_error,
    refund_payment_not_found_error,
    upgrade_unfinished,
)
from florin_server.idempotency.service import run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.archive.store import files as archive_files
from florin_server.money.outbox.store import older_releases
from florin_server.money.payments.service.load import is_visible
from florin_server.money.payments.store import payments, simulation
from florin_server.money.payouts.store import payouts
from florin_server.money.refunds import store as refunds
from florin_server.operations.service.audit_log import audited
from florin_server.settings.context import SettingsContext


class _Context(EventContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_ASSET_PREFIX = "caip19/"


@dataclass(frozen=True, slots=True)
class RefundRequest:
    """A merchant's refund request; without an amount all of the paid money goes back."""

    payment_id: str
    amount: RefundAmount | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CreatedRefund:
    """A new refund, and the payment's own unit, in which `payment_value` is."""

    refund: Refund
    payment_unit: str


async def request_refund(
    app: _Context,
    caller: Caller,
    request: RefundRequest,
    encode_response: Callable[[CreatedRefund], bytes],
) -> CreatedRefund | StoredResponse:
    """Request that money of a succeeded payment goes back to the account that paid it.

    The refund is pending until it is paid out. The refund of a simulated payment succeeds at once,
    and moves nothing either. A request that equals an earlier one and has its idempotency key gets
    its response. already_refunded for a request without an amount after any refund, and for more
    than the refundable amount. 503 for a payment's second refund while processes of an older
    release run.
    """
    work = audited(app, _request(app, caller, request), partial(_describe, caller))
    outcome = await run_once(app, caller, work, encode_response)
    if isinstance(outcome, CreatedRefund):
        app.notifier.publish(Topic.PAYOUTS_DUE)
        app.notifier.publish(Topic.WEBHOOKS)
    return outcome


async def list_refunds(app: StorageContext, payment: Payment) -> Sequence[Refund]:
    """Return the refunds of a payment, the oldest first."""
    if payment.status is not PaymentStatus.SUCCEEDED:
        return ()
    return await app.store.read(refunds.list_refunds(payment.id))


@operation
def _request(app: _Context, caller: Caller, request: RefundRequest) -> Op[CreatedRefund]:
    payment = yield from payments.find(request.payment_id)
    if payment is None or not is_visible(caller, payment):
        # for another's payment too: an unknown one must not take more statements
        key = yield from archive_files.find_key(request.payment_id)
        if payment is None and key is not None and is_visible(caller, key):
            raise payment_archived_error()
        raise refund_payment_not_found_error(wcp_profile=caller.wcp_profile)
    if payment.status is not PaymentStatus.SUCCEEDED:
        raise ApiError(ErrorCode.PAYMENT_NOT_SUCCEEDED)
    if payment.payer is None and payment.tx_id != simulation.format_tx_id(payment.id):
        text = "The account that paid is unknown: return the money to an account of the buyer"
        raise ApiError(ErrorCode.INVALID_STATE, text)
    # two simultaneous requests must not be promised the same money
    yield from refunds.lock(payment.id)
    earlier_refunds = yield from refunds.list_refunds(payment.id)
    totals = sum_refunds(payment, earlier_refunds)
    if earlier_refunds and request.amount is None:
        raise totals.already_refunded_error()
    values = split_refund(payment, totals, request.amount)
    _check_count(app, totals, earlier_refunds)
    if earlier_refunds and (yield from older_releases.is_held()):
        # those know one refund per payment, and could not report the end of two
        raise upgrade_unfinished()
    refund_id, now_us = generate_short_id("rfnd_", app.randbytes), app.clock.now_us()
    simulated = payment.tx_id == simulation.format_tx_id(payment.id)
    refund = Refund(
        id=refund_id,
        payment_id=payment.id,
        unit=totals.unit,
        value=values.value,
        account=payment.payer,
        status=RefundStatus.SUCCEEDED if simulated else RefundStatus.PENDING,
        tx_id=simulation.format_tx_id(refund_id) if simulated else None,
        created_at_us=now_us,
        completed_at_us=now_us if simulated else None,
        version=(yield from refunds.get_next_version(payment.id)),
        ordinal=len(earlier_refunds) + 1,
        reason=request.reason,
        payment_value=values.payment_value,
    )
    yield from refunds.create(refund)
    if not simulated:
        yield from payouts.add(_build_payout(payment, refund))
    return CreatedRefund(refund, payment.unit)


def _describe(caller: Caller, created: CreatedRefund) -> AuditChange:
    refund = created.refund
    return AuditChange(
        AuditAction.PAYMENT_REFUNDED,
        AuditObject.PAYMENT,
        refund.payment_id,
        caller.partner_id,
        caller.live,
        list_changes({}, {"refund": refund.id, "amount": f"{refund.value} {refund.unit}"}),
    )


def _check_count(
    app: SettingsContext, totals: RefundTotals, earlier_refunds: Sequence[Refund]
) -> None:
    """Refuse one refund too many: each costs gas. Failed ones were refused by the operator."""
    most = app.settings.refunds_max
    if sum(refund.status is not RefundStatus.FAILED for refund in earlier_refunds) >= most:
        raise totals.already_refunded_error(
            f"A payment can have at most {most} refunds", maxRefunds=str(most)
        )


def _build_payout(payment: Payment, refund: Refund) -> Payout:
    """Return the payout of a refund."""
    asset = refund.unit.removeprefix(_ASSET_PREFIX)
    if refund.account is None:
        raise RuntimeError(f"payment {payment.id} has no paying account")
    return Payout(
        id=refund.id,
        kind=PayoutKind.REFUND,
        merchant_id=payment.merchant_id,
        payment_id=payment.id,
        live=payment.live,
        chain_id=str(parse_asset(asset).chain),
        asset=asset,
        value=refund.value,
        account=refund.account,
        created_at_us=refund.created_at_us,
    )
