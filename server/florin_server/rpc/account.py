"""The partner's part of AdminService."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, payment_pb2

from florin_server.domain.state import Event
from florin_server.flows.app import App
from florin_server.flows.simulate import simulate
from florin_server.rpc.call import caller
from florin_server.rpc.codec import Codec
from florin_server.rpc.replay import answer, stored

_OUTCOMES = {
    account_pb2.SIMULATED_OUTCOME_SUCCEEDED: Event.SIMULATE_SUCCEEDED,
    account_pb2.SIMULATED_OUTCOME_FAILED: Event.SIMULATE_FAILED,
    account_pb2.SIMULATED_OUTCOME_EXPIRED: Event.SIMULATE_EXPIRED,
    account_pb2.SIMULATED_OUTCOME_CANCELLED: Event.SIMULATE_CANCELLED,
    account_pb2.SIMULATED_OUTCOME_STALL: Event.SIMULATE_STALL,
}


class AccountCalls:
    """Calls that a partner's back end makes about its merchants."""

    _app: App
    _codec: Codec

    async def CreateMerchant(
        self, request: account_pb2.CreateMerchantRequest, context: Any
    ) -> account_pb2.CreateMerchantResponse:
        """SKELETON."""
        raise NotImplementedError

    async def ListMerchants(
        self, request: account_pb2.ListMerchantsRequest, context: Any
    ) -> account_pb2.ListMerchantsResponse:
        """SKELETON."""
        raise NotImplementedError

    async def GetMerchant(
        self, request: account_pb2.GetMerchantRequest, context: Any
    ) -> account_pb2.GetMerchantResponse:
        """SKELETON."""
        raise NotImplementedError

    async def UpdateMerchant(
        self, request: account_pb2.UpdateMerchantRequest, context: Any
    ) -> account_pb2.UpdateMerchantResponse:
        """SKELETON."""
        raise NotImplementedError

    async def DeleteMerchant(
        self, request: account_pb2.DeleteMerchantRequest, context: Any
    ) -> account_pb2.DeleteMerchantResponse:
        """SKELETON."""
        raise NotImplementedError

    async def ListSettlements(
        self, request: account_pb2.ListSettlementsRequest, context: Any
    ) -> account_pb2.Settlements:
        """SKELETON."""
        raise NotImplementedError

    async def CreateCryptoSettlements(
        self, request: account_pb2.CreateCryptoSettlementsRequest, context: Any
    ) -> account_pb2.CreateCryptoSettlementsResponse:
        """SKELETON."""
        raise NotImplementedError

    async def UpdateCryptoSettlement(
        self, request: account_pb2.UpdateCryptoSettlementRequest, context: Any
    ) -> account_pb2.CryptoSettlement:
        """SKELETON."""
        raise NotImplementedError

    async def DeleteCryptoSettlement(
        self, request: account_pb2.DeleteCryptoSettlementRequest, context: Any
    ) -> account_pb2.DeleteCryptoSettlementResponse:
        """SKELETON."""
        raise NotImplementedError

    async def SimulatePayment(
        self, request: account_pb2.SimulatePaymentRequest, context: Any
    ) -> payment_pb2.GetPaymentStatusResponse:
        """Gives a test payment its outcome."""
        build = self._codec.status
        event = _OUTCOMES[request.outcome]
        outcome = await simulate(self._app, caller(), request.payment_id, event, stored(build))
        return answer(outcome, build, payment_pb2.GetPaymentStatusResponse)
