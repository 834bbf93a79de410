"""AdminService: what a partner manages itself."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, admin_pb2_grpc, payment_pb2

from florin_server.domain.payments.state import Event
from florin_server.flows.accounts import destinations, merchants
from florin_server.flows.app import App
from florin_server.flows.operator.clock import advance, movable
from florin_server.flows.payments.simulate import simulate
from florin_server.rpc.accounts import merchant_codec
from florin_server.rpc.payments.codec import Codec
from florin_server.rpc.server.call import caller
from florin_server.rpc.server.replay import answer, stored

_OUTCOMES = {
    account_pb2.SIMULATED_OUTCOME_SUCCEEDED: Event.SIMULATE_SUCCEEDED,
    account_pb2.SIMULATED_OUTCOME_FAILED: Event.SIMULATE_FAILED,
    account_pb2.SIMULATED_OUTCOME_EXPIRED: Event.SIMULATE_EXPIRED,
    account_pb2.SIMULATED_OUTCOME_CANCELLED: Event.SIMULATE_CANCELLED,
    account_pb2.SIMULATED_OUTCOME_STALL: Event.SIMULATE_STALL,
}


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """Calls that a partner's back end makes about its merchants."""

    def __init__(self, app: App, answers: Codec) -> None:
        self._app = app
        self._codec = answers

    async def CreateMerchant(
        self, request: account_pb2.CreateMerchantRequest, context: Any
    ) -> account_pb2.CreateMerchantResponse:
        """Creates a merchant, or repeats the answer of its idempotency key."""
        build = merchant_codec.created
        wanted = merchant_codec.new_merchant(request)
        outcome = await merchants.create(self._app, caller(), wanted, stored(build))
        return answer(outcome, build, account_pb2.CreateMerchantResponse)

    async def ListMerchants(
        self, request: account_pb2.ListMerchantsRequest, context: Any
    ) -> account_pb2.ListMerchantsResponse:
        """Lists the partner's merchants."""
        page = await merchants.listed(
            self._app,
            caller(),
            status=merchant_codec.status_text(request.status),
            search=request.search if request.HasField("search") else None,
            after=request.cursor if request.HasField("cursor") else None,
            limit=request.limit if request.HasField("limit") else None,
        )
        return merchant_codec.listed(page)

    async def GetMerchant(
        self, request: account_pb2.GetMerchantRequest, context: Any
    ) -> account_pb2.GetMerchantResponse:
        """Tells one merchant with its settlements."""
        return merchant_codec.profile(
            *await merchants.get(self._app, caller(), request.merchant_id)
        )

    async def UpdateMerchant(
        self, request: account_pb2.UpdateMerchantRequest, context: Any
    ) -> account_pb2.UpdateMerchantResponse:
        """Changes a merchant."""
        build = merchant_codec.updated
        changes = merchant_codec.changes(request)
        outcome = await merchants.update(
            self._app, caller(), request.merchant_id, changes, stored(build)
        )
        return answer(outcome, build, account_pb2.UpdateMerchantResponse)

    async def DeleteMerchant(
        self, request: account_pb2.DeleteMerchantRequest, context: Any
    ) -> account_pb2.DeleteMerchantResponse:
        """Hides a merchant and stops new payments."""
        build = merchant_codec.deleted
        outcome = await merchants.delete(self._app, caller(), request.merchant_id, stored(build))
        return answer(outcome, build, account_pb2.DeleteMerchantResponse)

    async def ListSettlements(
        self, request: account_pb2.ListSettlementsRequest, context: Any
    ) -> account_pb2.Settlements:
        """Lists where a merchant wants its money."""
        return merchant_codec.settlements(
            await destinations.listed(self._app, caller(), request.merchant_id)
        )

    async def CreateCryptoSettlements(
        self, request: account_pb2.CreateCryptoSettlementsRequest, context: Any
    ) -> account_pb2.CreateCryptoSettlementsResponse:
        """Creates settlements, all of them or none."""
        build = merchant_codec.settlements_created
        wanted = merchant_codec.new_settlements(request)
        outcome = await destinations.create(
            self._app, caller(), request.merchant_id, wanted, stored(build)
        )
        return answer(outcome, build, account_pb2.CreateCryptoSettlementsResponse)

    async def UpdateCryptoSettlement(
        self, request: account_pb2.UpdateCryptoSettlementRequest, context: Any
    ) -> account_pb2.CryptoSettlement:
        """Changes where an asset goes."""
        build = merchant_codec.crypto_settlement
        outcome = await destinations.change(
            self._app,
            caller(),
            request.merchant_id,
            request.id,
            destination=request.destination,
            receipt=stored(build),
        )
        return answer(outcome, build, account_pb2.CryptoSettlement)

    async def DeleteCryptoSettlement(
        self, request: account_pb2.DeleteCryptoSettlementRequest, context: Any
    ) -> account_pb2.DeleteCryptoSettlementResponse:
        """Deletes a settlement."""
        build = merchant_codec.settlement_deleted
        outcome = await destinations.delete(
            self._app, caller(), request.merchant_id, request.id, stored(build)
        )
        return answer(outcome, build, account_pb2.DeleteCryptoSettlementResponse)

    async def GetTestClock(
        self, request: account_pb2.GetTestClockRequest, context: Any
    ) -> account_pb2.TestClock:
        """Tells the time of the installation."""
        return merchant_codec.clock(
            self._app.clock.now_us(), movable=movable(self._app) is not None
        )

    async def AdvanceTestClock(
        self, request: account_pb2.AdvanceTestClockRequest, context: Any
    ) -> account_pb2.TestClock:
        """Moves the time of the installation on."""
        build = merchant_codec.clock
        outcome = await advance(self._app, caller(), request.seconds, stored(build))
        return answer(outcome, build, account_pb2.TestClock)

    async def SimulatePayment(
        self, request: account_pb2.SimulatePaymentRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Gives a test payment its outcome."""
        build = self._codec.status
        event = _OUTCOMES[request.outcome]
        outcome = await simulate(self._app, caller(), request.payment_id, event, stored(build))
        return answer(outcome, build, payment_pb2.GetPaymentStatusResponse)
