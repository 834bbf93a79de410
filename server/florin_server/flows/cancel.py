"""The buyer or the merchant calls a payment off."""

from __future__ import annotations

from florin_server.domain.payment import CancelledReason, Payment, Status
from florin_server.domain.state import Event, step
from florin_server.flows.app import App, Caller
from florin_server.flows.load import find
from florin_server.store import payments


async def cancel(app: App, caller: Caller, text: str) -> Payment:
    """Calls a payment off while it requires action; repeating it repeats the answer."""
    payment = await find(app, caller, text)
    if payment.status is not Status.CANCELLED:
        app.limits.cancel(payment.id)
    return await _cancel(app, caller, payment)


async def _cancel(app: App, caller: Caller, payment: Payment) -> Payment:
    step(payment.status, Event.CANCEL)
    if payment.status is Status.CANCELLED:
        return payment
    reason = CancelledReason.BY_MERCHANT if caller.merchant else CancelledReason.BY_USER
    changed = await app.store.write(payments.cancel(payment.id, reason, app.clock.now_us()))
    if changed is not None:
        return await app.changed(changed)
    # another change came first; a payment leaves requires_action for good, so this ends
    return await _cancel(app, caller, await find(app, caller, payment.id))
