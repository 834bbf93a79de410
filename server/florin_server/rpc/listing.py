"""Lists of payments over gRPC."""

from __future__ import annotations

from typing import Any

from florin.v1 import listing_pb2

from florin_server.flows.app import App
from florin_server.rpc.codec import Codec


class ListingCalls:
    """Lists of a partner's or a merchant's payments."""

    _app: App
    _codec: Codec

    async def ListPayments(
        self, request: listing_pb2.ListPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """SKELETON."""
        raise NotImplementedError

    async def ListMerchantPayments(
        self, request: listing_pb2.ListMerchantPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """SKELETON."""
        raise NotImplementedError

    async def ListPaymentsLegacy(
        self, request: listing_pb2.ListPaymentsLegacyRequest, context: Any
    ) -> listing_pb2.ListPaymentsLegacyResponse:
        """SKELETON."""
        raise NotImplementedError
