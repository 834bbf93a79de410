"""AdminService: the part of an account that its partner manages."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, admin_pb2_grpc, payment_pb2

from florin_server.accounts.service import destinations, merchants
from florin_server.api.accounts import merchant_codec
from florin_server.api.accounts.records import PartnerRecordCalls
from florin_server.api.context import ApiContext
from florin_server.api.payments.codec import PaymentCodec
from florin_server.api.server.call import get_caller
from florin_server.api.server.replay import build_response, make_response_encoder
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.payments.service.simulate import simulate
from florin_server.operations.service.clock import advance, find_movable_clock

_OUTCOMES = {
    account_pb2.SIMULATED_OUTCOME_SUCCEEDED: PaymentStateEvent.SIMULATE_SUCCEEDED,
    account_pb2.SIMULATED_OUTCOME_FAILED: PaymentStateEvent.SIMULATE_FAILED,
    account_pb2.SIMULATED_OUTCOME_EXPIRED: PaymentStateEvent.SIMULATE_EXPIRED,
    account_pb2.SIMULATED_OUTCOME_CANCELLED: PaymentStateEvent.SIMULATE_CANCELLED,
    account_pb2.SIMULATED_OUTCOME_STALL: PaymentStateEvent.SIMULATE_STALL,
}


class AdminServicer(PartnerRecordCalls, admin_pb2_grpc.AdminServiceServicer):
    """Calls of a partner's back end about its merchants."""

    def __init__(self, app: ApiContext, codec: PaymentCodec) -> None:
        self._app = app
        self._codec = codec

    async def CreateMerchant(
        self, request: account_pb2.CreateMerchantRequest, context: Any
    ) -> account_pb2.CreateMerchantResponse:
        """Create a merchant, or return the stored response of its idempotency key."""
        build = merchant_codec.to_create_merchant_response
        new_merchant = merchant_codec.parse_new_merchant(request)
        outcome = await merchants.create(
            self._app, get_caller(), new_merchant, make_response_encoder(build)
        )
        return build_response(outcome, build, account_pb2.CreateMerchantResponse)

    async def ListMerchants(
        self, request: account_pb2.ListMerchantsRequest, context: Any
    ) -> account_pb2.ListMerchantsResponse:
        """List the partner's merchants."""
        page = await merchants.list_merchants(
            self._app,
            get_caller(),
            status=merchant_codec.parse_status_filter(request.status),
            search=request.search if request.HasField("search") else None,
            page_cursor=request.cursor if request.HasField("cursor") else None,
            limit=request.limit if request.HasField("limit") else None,
        )
        return merchant_codec.to_list_merchants_response(page)

    async def GetMerchant(
        self, request: account_pb2.GetMerchantRequest, context: Any
    ) -> account_pb2.GetMerchantResponse:
        """Return one merchant with its settlements."""
        return merchant_codec.to_get_merchant_response(
            *await merchants.get(self._app, get_caller(), request.merchant_id)
        )

    async def UpdateMerchant(
        self, request: account_pb2.UpdateMerchantRequest, context: Any
    ) -> account_pb2.UpdateMerchantResponse:
        """Change a merchant."""
        build = merchant_codec.to_update_merchant_response
        changes = merchant_codec.parse_merchant_changes(request)
        outcome = await merchants.update(
            self._app, get_caller(), request.merchant_id, changes, make_response_encoder(build)
        )
        return build_response(outcome, build, account_pb2.UpdateMerchantResponse)

    async def DeleteMerchant(
        self, request: account_pb2.DeleteMerchantRequest, context: Any
    ) -> account_pb2.DeleteMerchantResponse:
        """Hide a merchant and stop new payments."""
        build = merchant_codec.to_delete_merchant_response
        outcome = await merchants.delete(
            self._app, get_caller(), request.merchant_id, make_response_encoder(build)
        )
        return build_response(outcome, build, account_pb2.DeleteMerchantResponse)

    async def ListSettlements(
        self, request: account_pb2.ListSettlementsRequest, context: Any
    ) -> account_pb2.Settlements:
        """List the settlement destinations of a merchant."""
        return merchant_codec.to_settlements(
            await destinations.list_destinations(self._app, get_caller(), request.merchant_id)
        )

    async def CreateCryptoSettlements(
        self, request: account_pb2.CreateCryptoSettlementsRequest, context: Any
    ) -> account_pb2.CreateCryptoSettlementsResponse:
        """Create settlements, all of them or none."""
        build = merchant_codec.to_create_settlements_response
        new_destinations = merchant_codec.parse_new_destinations(request)
        outcome = await destinations.create(
            self._app,
            get_caller(),
            request.merchant_id,
            new_destinations,
            make_response_encoder(build),
        )
        return build_response(outcome, build, account_pb2.CreateCryptoSettlementsResponse)

    async def UpdateCryptoSettlement(
        self, request: account_pb2.UpdateCryptoSettlementRequest, context: Any
    ) -> account_pb2.CryptoSettlement:
        """Change the destination of an asset."""
        build = merchant_codec.to_crypto_settlement
        outcome = await destinations.update(
            self._app,
            get_caller(),
            request.merchant_id,
            request.id,
            destination=request.destination,
            encode_response=make_response_encoder(build),
        )
        return build_response(outcome, build, account_pb2.CryptoSettlement)

    async def DeleteCryptoSettlement(
        self, request: account_pb2.DeleteCryptoSettlementRequest, context: Any
    ) -> account_pb2.DeleteCryptoSettlementResponse:
        """Delete a settlement."""
        build = merchant_codec.to_delete_settlement_response
        outcome = await destinations.delete(
            self._app, get_caller(), request.merchant_id, request.id, make_response_encoder(build)
        )
        return build_response(outcome, build, account_pb2.DeleteCryptoSettlementResponse)

    async def GetTestClock(
        self, request: account_pb2.GetTestClockRequest, context: Any
    ) -> account_pb2.TestClock:
        """Return the time of the installation."""
        return merchant_codec.to_test_clock(
            self._app.clock.now_us(), movable=find_movable_clock(self._app) is not None
        )

    async def AdvanceTestClock(
        self, request: account_pb2.AdvanceTestClockRequest, context: Any
    ) -> account_pb2.TestClock:
        """Move the clock of the installation forward."""
        build = merchant_codec.to_test_clock
        outcome = await advance(
            self._app, get_caller(), request.seconds, make_response_encoder(build)
        )
        return build_response(outcome, build, account_pb2.TestClock)

    async def SimulatePayment(
        self, request: account_pb2.SimulatePaymentRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Set the outcome of a test payment."""
        build = self._codec.to_status_response
        event = _OUTCOMES[request.outcome]
        outcome = await simulate(
            self._app, get_caller(), request.payment_id, event, make_response_encoder(build)
        )
        return build_response(outcome, build, payment_pb2.GetPaymentStatusResponse)
