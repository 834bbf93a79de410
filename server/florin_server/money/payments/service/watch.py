"""Streams that follow a payment, a refund or a payout to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, Refund, RefundStatus
from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.money.payouts.service import payouts
from florin_server.money.refunds import store as refunds
from florin_server.rails.context import ChainContext


class _Context(ChainContext, EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


def watch(app: EventContext, payment: Payment, after_version: int | None) -> AsyncIterator[Payment]:
    """Yield the payment now, then its newest state whenever there is a newer one.

    Only versions above `after_version`.
    """
    after = -1 if after_version is None else after_version
    if payment.status.is_final:
        # it can be in the archive, and not in the store
        return _yield_final(payment, after)
    return app.notifier.payments.watch(payment.id, after)


async def _yield_final(payment: Payment, after: int) -> AsyncIterator[Payment]:
    if payment.version > after:
        yield payment


async def watch_refund(
    app: _Context, payment: Payment, refund_id: str = ""
) -> AsyncIterator[Refund]:
    """Yield a refund of a payment as it is now, then whenever its status changes.

    The newest refund if none is named. ApiError(invalid_state) without a refund,
    ApiError(invalid_params) if the payment does not have the named one.
    """
    existing = await app.store.read(refunds.list_refunds(payment.id))
    if not existing:
        raise ApiError(ErrorCode.INVALID_STATE, "The payment has no refund")
    followed_refund = next(
        (each_refund for each_refund in reversed(existing) if refund_id in {"", each_refund.id}),
        None,
    )
    if followed_refund is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Refund {refund_id} not found")

    async def read() -> Refund | None:
        return await app.store.read(refunds.find_refund(followed_refund.id))

    over = {RefundStatus.SUCCEEDED, RefundStatus.FAILED}
    async for refund in app.notifier.payouts.follow(
        followed_refund.id, read, lambda this_refund: this_refund.status in over
    ):
        yield refund


async def watch_payout(app: _Context, payout_id: str) -> AsyncIterator[Payout]:
    """Yield a payout now, then after each change.

    ApiError(invalid_params) for an unknown payout.
    """

    async def read() -> Payout | None:
        return await payouts.find_payout(app, payout_id)

    if await read() is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Payout {payout_id} not found")
    over = {PayoutStatus.DONE, PayoutStatus.REFUSED}
    async for payout in app.notifier.payouts.follow(
        payout_id, read, lambda payout: payout.status in over
    ):
        yield payout
