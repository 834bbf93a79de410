"""The buyer or the merchant calls a payment off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from florin_server.domain.accounts.credentials import CHECKOUT_APPS
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import CancelledReason, Payment, Status
from florin_server.domain.payments.state import Event, step
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.flows.payments.load import find
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments import payments
from florin_server.store.payments.idempotency import Replay


async def cancel(
    app: App, caller: Caller, payment_ref: str, receipt: Callable[[Payment], bytes]
) -> Payment | Replay:
    """Calls a payment off while it requires action; repeating it repeats the answer.

    Whoever has a link has the app id of its page, which therefore may not: FlorinError(forbidden).
    `receipt` gives the bytes that are stored under a merchant's key; a wallet's key stores nothing.
    """
    if caller.app is not None and caller.app.app_id in CHECKOUT_APPS.values():
        raise FlorinError(Code.FORBIDDEN)
    reason = CancelledReason.BY_MERCHANT
    if caller.merchant is None:
        caller, reason = replace(caller, idempotency=None), CancelledReason.BY_USER
    try:
        payment = await find(app, caller, payment_ref)
        if payment.status is not Status.CANCELLED:
            app.limits.cancel(payment.id, caller.origin)
    except FlorinError as fault:
        return await once(app, caller, failing(fault), receipt)
    work = _cancel(payment.id, reason, app.clock.now_us(), caller.request_id)
    outcome = await once(app, caller, work, receipt)
    return outcome if isinstance(outcome, Replay) else await app.changed(outcome)


@operation
def _cancel(payment_id: str, reason: CancelledReason, now_us: int, request_id: str) -> Op[Payment]:
    changed = yield from payments.cancel(payment_id, reason, now_us, request_id)
    if changed is not None:
        return changed
    # it is over, or bound to a confirm: payments never leave the store
    payment = (yield from payments.get((payment_id,)))[payment_id].at(now_us)
    step(payment.status, Event.CANCEL)
    return payment
