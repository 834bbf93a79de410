"""The operator's calls about what leaves its treasuries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from florin.v1 import payout_pb2

from florin_server.domain.errors import invalid
from florin_server.domain.payouts.payout import Payout, PayoutKind, PayoutStatus
from florin_server.flows.app import App
from florin_server.flows.payments.watch import watch_payout
from florin_server.flows.payouts import payouts
from florin_server.flows.payouts.payouts import PayoutPreview
from florin_server.rpc.server.timestamps import timestamp

_KIND = {kind: payout_pb2.PayoutKind.Value(f"PAYOUT_KIND_{kind.upper()}") for kind in PayoutKind}
_STATUS = {
    status: payout_pb2.PayoutStatus.Value(f"PAYOUT_STATUS_{status.upper()}")
    for status in PayoutStatus
}
_PAID: dict[int, bool] = {
    payout_pb2.PAYOUT_OUTCOME_PAID: True,
    payout_pb2.PAYOUT_OUTCOME_NOT_PAID: False,
}


class PayoutCalls:
    """Payouts: listed, watched, begun, refused, resolved."""

    _app: App

    async def ListPayouts(
        self, request: payout_pb2.ListPayoutsRequest, context: Any
    ) -> payout_pb2.ListPayoutsResponse:
        """Lists payouts."""
        found = await payouts.listed(self._app, all_=request.all)
        return payout_pb2.ListPayoutsResponse(payouts=[_payout(one) for one in found])

    async def PreviewPayout(
        self, request: payout_pb2.PreviewPayoutRequest, context: Any
    ) -> payout_pb2.PayoutPreview:
        """Tells what a payout would send."""
        amount = int(request.amount) if request.amount else None
        found = await payouts.preview(self._app, request.merchant_id, request.asset, amount)
        return _preview(found)

    async def CreatePayout(
        self, request: payout_pb2.CreatePayoutRequest, context: Any
    ) -> payout_pb2.Payout:
        """Pays a merchant what it is owed."""
        amount = int(request.amount) if request.amount else None
        made = await payouts.create(
            self._app, request.merchant_id, request.asset, amount, request.account
        )
        return _payout(made)

    async def WatchPayout(
        self, request: payout_pb2.WatchPayoutRequest, context: Any
    ) -> AsyncIterator[payout_pb2.WatchPayoutResponse]:
        """Tells a payout, and how it stands whenever that has changed."""
        async for one in watch_payout(self._app, request.payout_id):
            yield payout_pb2.WatchPayoutResponse(payout=_payout(one))

    async def RefusePayout(
        self, request: payout_pb2.RefusePayoutRequest, context: Any
    ) -> payout_pb2.Payout:
        """Calls a waiting payout off for good."""
        return _payout(await payouts.refuse(self._app, request.payout_id))

    async def ResolvePayout(
        self, request: payout_pb2.ResolvePayoutRequest, context: Any
    ) -> payout_pb2.Payout:
        """Ends a payout by what the operator found out."""
        paid = _PAID.get(request.outcome)
        if paid is None:
            raise invalid("outcome", "must tell whether it was paid")
        return _payout(await payouts.resolve(self._app, request.payout_id, paid=paid))


def _preview(found: PayoutPreview) -> payout_pb2.PayoutPreview:
    plan, terms = found.plan, found.terms
    return payout_pb2.PayoutPreview(
        merchant_id=plan.merchant.id,
        merchant_name=plan.merchant.name,
        live=plan.merchant.live,
        asset=plan.asset,
        symbol=terms.symbol if terms else "",
        decimals=terms.decimals if terms else 0,
        amount=str(plan.value),
        owed=str(plan.owed),
        account=plan.account,
        fee_payer=found.fee_payer,
        problem=found.problem,
    )


def _payout(one: Payout) -> payout_pb2.Payout:
    completed_at_us = one.completed_at_us
    return payout_pb2.Payout(
        payout_id=one.id,
        kind=_KIND[one.kind],
        status=_STATUS[one.status],
        merchant_id=one.merchant_id,
        payment_id=one.payment_id or "",
        live=one.live,
        asset=one.asset,
        amount=str(one.value),
        account=one.account,
        problem=one.problem or "",
        tx_id=one.tx_id or "",
        created_at=timestamp(one.created_at_us),
        completed_at=None if completed_at_us is None else timestamp(completed_at_us),
    )
