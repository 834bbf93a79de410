"""Somebody follows a payment, or money that leaves, until its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.flows.app import App
from florin_server.flows.payouts import payouts
from florin_server.store.payouts import refunds


def watch(app: App, payment: Payment, after_version: int | None) -> AsyncIterator[Payment]:
    """Yields the payment now, then its newest state whenever there is a newer one.

    Only versions above `after_version`.
    """
    return app.hub.watch(payment.id, -1 if after_version is None else after_version)


async def watch_refund(app: App, payment: Payment, refund_id: str = "") -> AsyncIterator[Refund]:
    """Yield a refund of a payment as it is now, then whenever its status changes.

    The newest one if none is named. FlorinError(invalid_state) if there is none,
    FlorinError(invalid_params) if the payment has no such refund.
    """
    existing = await app.store.read(refunds.list_refunds(payment.id))
    if not existing:
        raise FlorinError(Code.INVALID_STATE, "Payment has no refund")
    known = next((one for one in reversed(existing) if refund_id in {"", one.id}), None)
    if known is None:
        raise FlorinError(Code.INVALID_PARAMS, "The payment has no such refund")

    async def read() -> Refund | None:
        return await app.store.read(refunds.find_refund(known.id))

    over = {RefundStatus.SUCCEEDED, RefundStatus.FAILED}
    async for refund in app.payouts.follow(known.id, read, lambda one: one.status in over):
        yield refund


async def watch_payout(app: App, payout_id: str) -> AsyncIterator[Payout]:
    """Yields a payout now, then how it stands whenever that has changed.

    FlorinError(invalid_params) for an unknown one.
    """

    async def read() -> Payout | None:
        return await payouts.seen(app, payout_id)

    if await read() is None:
        raise FlorinError(Code.INVALID_PARAMS, "Payout not found")
    over = {PayoutStatus.DONE, PayoutStatus.REFUSED}
    async for payout in app.payouts.follow(payout_id, read, lambda one: one.status in over):
        yield payout
