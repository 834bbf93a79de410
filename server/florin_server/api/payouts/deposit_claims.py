"""The calls about claims for money at payments' own addresses."""

from __future__ import annotations

from typing import Any

from florin.v1 import held_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.call import get_caller
from florin_server.api.server.replay import build_response, make_response_encoder
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.payouts.deposit_claims import (
    ClaimDecider,
    DepositClaim,
    DepositClaimState,
)
from florin_server.money.payments.service.load import get_payment
from florin_server.money.payouts.service import deposit_claims

_STATE = {
    state: held_pb2.DepositClaimState.Value(f"DEPOSIT_CLAIM_STATE_{state.upper()}")
    for state in DepositClaimState
}
_DECIDER = {
    decider: held_pb2.DepositClaimDecider.Value(f"DEPOSIT_CLAIM_DECIDER_{decider.upper()}")
    for decider in ClaimDecider
}


class BuyerClaimCalls:
    """A claim by a caller with the payment's link."""

    _app: ApiContext

    async def ClaimDeposit(
        self, request: held_pb2.ClaimDepositRequest, context: Any
    ) -> held_pb2.ClaimDepositResponse:
        """Claim held money of an asset for an account."""
        caller = get_caller()
        claims = await deposit_claims.claim_deposit(
            self._app,
            caller,
            request.payment_id,
            request.asset,
            request.account,
            message=request.message,
        )
        payment = await get_payment(self._app, caller, request.payment_id)
        return held_pb2.ClaimDepositResponse(
            payment_id=payment.id,
            # accounts and messages are never sent to callers that have only the link
            claims=[
                held_pb2.ClaimedDeposit(
                    claim_id=claim.id,
                    asset=claim.asset,
                    amount=str(claim.value),
                    state=_STATE[claim.state],
                )
                for claim in claims
            ],
        )


class MerchantClaimCalls:
    """A merchant's claims: list, confirm, reject."""

    _app: ApiContext

    async def ListDepositClaims(
        self, request: held_pb2.ListDepositClaimsRequest, context: Any
    ) -> held_pb2.ListDepositClaimsResponse:
        """List the claims of a payment."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        claims = await deposit_claims.list_claims(self._app, payment)
        return held_pb2.ListDepositClaimsResponse(
            claims=[to_deposit_claim(claim) for claim in claims]
        )

    async def ConfirmDepositClaim(
        self, request: held_pb2.DecideDepositClaimRequest, context: Any
    ) -> held_pb2.DepositClaim:
        """Return the money of a claim to its account."""
        outcome = await deposit_claims.confirm_claim(
            self._app,
            get_caller(),
            request.payment_id,
            request.claim_id,
            make_response_encoder(to_deposit_claim),
        )
        return build_response(outcome, to_deposit_claim, held_pb2.DepositClaim)

    async def RejectDepositClaim(
        self, request: held_pb2.DecideDepositClaimRequest, context: Any
    ) -> held_pb2.DepositClaim:
        """Reject a claim."""
        outcome = await deposit_claims.reject_claim(
            self._app,
            get_caller(),
            request.payment_id,
            request.claim_id,
            make_response_encoder(to_deposit_claim),
        )
        return build_response(outcome, to_deposit_claim, held_pb2.DepositClaim)


def to_deposit_claim(claim: DepositClaim) -> held_pb2.DepositClaim:
    """Return a claim as the merchant and the operator see it."""
    decided_at_us, decider = claim.decided_at_us, claim.decided_by
    return held_pb2.DepositClaim(
        claim_id=claim.id,
        asset=claim.asset,
        amount=str(claim.value),
        account=claim.account,
        message=claim.message or "",
        state=_STATE[claim.state],
        created_at=to_timestamp(claim.created_at_us),
        decided_at=None if decided_at_us is None else to_timestamp(decided_at_us),
        decided_by=None if decider is None else _DECIDER[decider],
    )
