"""The operator's calls about payouts from the treasuries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from florin.v1 import payout_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.errors import validation_error
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.money.payments.service.watch import watch_payout
from florin_server.money.payouts.service import payouts
from florin_server.money.payouts.service.payouts import PayoutPreview

_KIND = {kind: payout_pb2.PayoutKind.Value(f"PAYOUT_KIND_{kind.upper()}") for kind in PayoutKind}
_STATUS = {
    status: payout_pb2.PayoutStatus.Value(f"PAYOUT_STATUS_{status.upper()}")
    for status in PayoutStatus
}
_PAID_BY_OUTCOME: dict[int, bool] = {
    payout_pb2.PAYOUT_OUTCOME_PAID: True,
    payout_pb2.PAYOUT_OUTCOME_NOT_PAID: False,
}


class PayoutCalls:
    """Payouts: list, watch, create, refuse, resolve."""

    _app: ApiContext

    async def ListPayouts(
        self, request: payout_pb2.ListPayoutsRequest, context: Any
    ) -> payout_pb2.ListPayoutsResponse:
        """List payouts."""
        found_payouts = await payouts.list_payouts(self._app, include_closed=request.all)
        return payout_pb2.ListPayoutsResponse(
            payouts=[_to_payout(payout) for payout in found_payouts]
        )

    async def PreviewPayout(
        self, request: payout_pb2.PreviewPayoutRequest, context: Any
    ) -> payout_pb2.PayoutPreview:
        """Return a preview of a payout."""
        amount = int(request.amount) if request.amount else None
        preview = await payouts.preview(self._app, request.merchant_id, request.asset, amount)
        return _to_preview(preview)

    async def CreatePayout(
        self, request: payout_pb2.CreatePayoutRequest, context: Any
    ) -> payout_pb2.Payout:
        """Pay a merchant the balance it is owed."""
        amount = int(request.amount) if request.amount else None
        payout = await payouts.create(
            self._app, request.merchant_id, request.asset, amount, request.account
        )
        return _to_payout(payout)

    async def WatchPayout(
        self, request: payout_pb2.WatchPayoutRequest, context: Any
    ) -> AsyncIterator[payout_pb2.WatchPayoutResponse]:
        """Stream a payout: its current state, and again after each change."""
        async for payout in watch_payout(self._app, request.payout_id):
            yield payout_pb2.WatchPayoutResponse(payout=_to_payout(payout))

    async def RefusePayout(
        self, request: payout_pb2.RefusePayoutRequest, context: Any
    ) -> payout_pb2.Payout:
        """Cancel a waiting payout permanently."""
        return _to_payout(await payouts.refuse(self._app, request.payout_id))

    async def ResolvePayout(
        self, request: payout_pb2.ResolvePayoutRequest, context: Any
    ) -> payout_pb2.Payout:
        """Close a payout with the outcome that the operator found."""
        paid = _PAID_BY_OUTCOME.get(request.outcome)
        if paid is None:
            raise validation_error("outcome", "must be paid or not_paid")
        return _to_payout(await payouts.resolve(self._app, request.payout_id, is_paid=paid))


def _to_preview(preview: PayoutPreview) -> payout_pb2.PayoutPreview:
    plan, terms = preview.plan, preview.terms
    return payout_pb2.PayoutPreview(
        merchant_id=plan.merchant.id,
        merchant_name=plan.merchant.name,
        live=plan.merchant.live,
        asset=plan.asset,
        symbol=terms.symbol if terms else "",
        decimals=terms.decimals if terms else 0,
        amount=str(plan.value),
        owed=str(plan.owed_value),
        account=plan.account,
        fee_payer=preview.fee_payer,
        problem=preview.problem,
    )


def _to_payout(payout: Payout) -> payout_pb2.Payout:
    completed_at_us = payout.completed_at_us
    return payout_pb2.Payout(
        payout_id=payout.id,
        kind=_KIND[payout.kind],
        status=_STATUS[payout.status],
        merchant_id=payout.merchant_id,
        payment_id=payout.payment_id or "",
        live=payout.live,
        asset=payout.asset,
        amount=str(payout.value),
        account=payout.account,
        problem=payout.problem or "",
        tx_id=payout.tx_id or "",
        created_at=to_timestamp(payout.created_at_us),
        completed_at=None if completed_at_us is None else to_timestamp(completed_at_us),
    )
