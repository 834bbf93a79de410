"""The buyer or the merchant calls a payment off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.credentials import CHECKOUT_APP_IDS
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import CancellationReason, Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent, apply_event
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import get_payment
from florin_server.money.payments.store import payments
from florin_server.operations.context import WorkerContext
from florin_server.operations.service.audit_log import AuditStamp, create_stamp, record
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


async def cancel(
    app: _Context, caller: Caller, payment_ref: str, encode_response: Callable[[Payment], bytes]
) -> Payment | StoredResponse:
    """Cancel a payment while it requires action; repeating it repeats the answer.

    Everyone with a link has the app id of its page, which therefore cannot cancel:
    ApiError(forbidden). `encode_response` returns the bytes that are stored under a merchant's
    key; a wallet's key stores nothing.
    """
    if caller.app is not None and caller.app.app_id in CHECKOUT_APP_IDS.values():
        raise ApiError(ErrorCode.FORBIDDEN)
    reason = CancellationReason.BY_MERCHANT
    if caller.merchant is None:
        caller, reason = replace(caller, idempotency_key=None), CancellationReason.BY_USER
    try:
        payment = await get_payment(app, caller, payment_ref)
        if payment.status is not PaymentStatus.CANCELLED:
            app.limits.count_cancel(payment.id, caller.origin)
    except ApiError as fault:
        return await run_once(app, caller, fail_with(fault), encode_response)
    # a buyer's own cancellation is a payment's normal life
    stamp = None if caller.merchant is None else create_stamp(app)
    work = _cancel(payment, reason, app.clock.now_us(), caller.request_id, stamp)
    outcome = await run_once(app, caller, work, encode_response)
    return outcome if isinstance(outcome, StoredResponse) else app.notifier.publish_payment(outcome)


def _describe(payment: Payment) -> AuditChange:
    return AuditChange(
        AuditAction.PAYMENT_CANCELLED,
        AuditObject.PAYMENT,
        payment.id,
        payment.partner_id,
        payment.live,
    )


@operation
def _cancel(
    payment: Payment,
    reason: CancellationReason,
    now_us: int,
    request_id: str,
    stamp: AuditStamp | None,
) -> Op[Payment]:
    changed = yield from payments.cancel(payment.id, reason, now_us, request_id)
    if changed is not None:
        if stamp is not None:
            yield from record(stamp, _describe(changed))
        return changed
    # it has ended, or is bound to a confirm; an archived payment never changes
    stored_payment = (yield from payments.find(payment.id)) or payment
    current_payment = stored_payment.with_expiry(now_us)
    apply_event(current_payment.status, PaymentStateEvent.CANCEL)
    return current_payment
