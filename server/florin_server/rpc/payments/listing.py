"""Lists of payments over gRPC."""

from __future__ import annotations

from typing import Any

from florin.v1 import listing_pb2

from florin_server.flows.app import App
from florin_server.flows.payments import lists
from florin_server.rpc.payments.codec import Codec
from florin_server.rpc.payments.listing_codec import ListingCodec, wanted, wanted_legacy
from florin_server.rpc.server.call import caller


class ListingCalls:
    """Lists of a partner's or a merchant's payments."""

    _app: App
    _codec: Codec

    async def ListPayments(
        self, request: listing_pb2.ListPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """Lists payments of all merchants of the partner."""
        found = await lists.of_partner(self._app, caller(), wanted(request), request.merchant_id)
        return ListingCodec(self._codec).page(found)

    async def ListMerchantPayments(
        self, request: listing_pb2.ListMerchantPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """Lists payments of the merchant."""
        found = await lists.of_merchant(self._app, caller(), wanted(request))
        return ListingCodec(self._codec).page(found)

    async def ListPaymentsLegacy(
        self, request: listing_pb2.ListPaymentsLegacyRequest, context: Any
    ) -> listing_pb2.ListPaymentsLegacyResponse:
        """Lists payments of the merchant in the path, in the older form."""
        found = await lists.of_merchant_in_path(
            self._app, caller(), wanted_legacy(request), request.merchant_id
        )
        return ListingCodec(self._codec).legacy(found)
