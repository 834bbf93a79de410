"""The operator's calls about held money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from florin.v1 import address_pb2, held_pb2

from florin_server.api.context import ApiContext
from florin_server.api.payouts.deposit_claims import to_deposit_claim
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.errors import validation_error
from florin_server.domain.payouts.deposit_claims import DepositClaim
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.money.payments.service.recover_address import recover_address
from florin_server.money.payments.service.sweep_addresses import (
    list_address_money,
    sweep_addresses,
)
from florin_server.money.payouts.service import deposit_claims, held_money

_STATE = {
    state: held_pb2.HeldPaymentState.Value(f"HELD_PAYMENT_STATE_{state.upper()}")
    for state in HeldMoneyState
}
_STATE_BY_VERDICT: dict[int, HeldMoneyState] = {
    held_pb2.HELD_PAYMENT_VERDICT_RELEASE: HeldMoneyState.RELEASED,
    held_pb2.HELD_PAYMENT_VERDICT_RETURN: HeldMoneyState.RETURNED,
    held_pb2.HELD_PAYMENT_VERDICT_KEEP: HeldMoneyState.KEPT,
}


class HeldMoneyCalls:
    """Held payments: list, resolve."""

    _app: ApiContext

    async def ListHeldPayments(
        self, request: held_pb2.ListHeldPaymentsRequest, context: Any
    ) -> held_pb2.ListHeldPaymentsResponse:
        """List held payments."""
        held_payments = await held_money.list_held_money(self._app, include_closed=request.all)
        claims = await deposit_claims.list_claims_for(self._app, held_payments)
        return held_pb2.ListHeldPaymentsResponse(
            held_payments=[
                _to_held_payment(held_payment, claims.get(held_payment.id, ()))
                for held_payment in held_payments
            ]
        )

    async def ResolveHeldPayment(
        self, request: held_pb2.ResolveHeldPaymentRequest, context: Any
    ) -> held_pb2.HeldPayment:
        """Apply the operator's verdict on a held payment."""
        verdict = _STATE_BY_VERDICT.get(request.verdict)
        if verdict is None:
            raise validation_error("verdict", "must be release, return or keep")
        done = await held_money.resolve(
            self._app,
            request.held_id,
            verdict,
            request.note,
            even_if_blocked=request.even_if_blocked,
            return_to=request.return_to if request.HasField("return_to") else None,
        )
        claims = await deposit_claims.list_claims_for(self._app, [done])
        return _to_held_payment(done, claims.get(done.id, ()))

    async def RecoverAddress(
        self, request: address_pb2.RecoverAddressRequest, context: Any
    ) -> address_pb2.RecoverAddressResponse:
        """Send home what is left at a payment's addresses."""
        addresses = await recover_address(
            self._app, request.payment_id, request.chain_id, request.asset
        )
        return address_pb2.RecoverAddressResponse(
            addresses=[f"{request.chain_id}:{address}" for address in addresses]
        )

    async def ListAddressMoney(
        self, request: address_pb2.ListAddressMoneyRequest, context: Any
    ) -> address_pb2.ListAddressMoneyResponse:
        """List money that is still at addresses."""
        money, has_more = await list_address_money(self._app, request.chain_id)
        return address_pb2.ListAddressMoneyResponse(
            items=[
                address_pb2.AddressMoney(
                    payment_id=item.payment_id,
                    address=item.address,
                    asset=item.asset,
                    amount=str(item.value),
                    is_requested=item.is_requested,
                )
                for item in money
            ],
            has_more=has_more,
        )

    async def SweepAddresses(
        self, request: address_pb2.SweepAddressesRequest, context: Any
    ) -> address_pb2.SweepAddressesResponse:
        """Send home what several addresses hold."""
        items = [(item.address, item.asset) for item in request.items]
        addresses = await sweep_addresses(self._app, request.chain_id, items)
        return address_pb2.SweepAddressesResponse(addresses=addresses)


def _to_held_payment(item: HeldMoney, claims: Sequence[DepositClaim]) -> held_pb2.HeldPayment:
    decided_at_us = item.decided_at_us
    return held_pb2.HeldPayment(
        held_id=item.id,
        payment_id=item.payment_id,
        state=_STATE[item.state],
        payer=item.payer,
        asset=item.asset,
        amount=str(item.value),
        held_amount=str(item.held),
        late=item.late,
        reason=item.why,
        tx_id=item.tx_hash,
        held_at=to_timestamp(item.since_us),
        note=item.note or "",
        decided_at=None if decided_at_us is None else to_timestamp(decided_at_us),
        payout_id=item.payout_id or "",
        cause=held_pb2.HELD_PAYMENT_CAUSE_BLOCKED
        if item.address is None
        else held_pb2.HELD_PAYMENT_CAUSE_SENDER_UNKNOWN,
        address=item.address or "",
        claims=[to_deposit_claim(claim) for claim in claims],
    )
