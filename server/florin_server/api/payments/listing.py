"""Lists of payments over gRPC."""

from __future__ import annotations

from typing import Any

from florin.v1 import listing_pb2

from florin_server.api.context import ApiContext
from florin_server.api.payments.codec import PaymentCodec
from florin_server.api.payments.listing_codec import (
    PaymentListCodec,
    parse_legacy_list_query,
    parse_list_query,
)
from florin_server.api.server.call import get_caller
from florin_server.money.payments.service import lists


class PaymentListCalls:
    """Lists of a partner's or a merchant's payments."""

    _app: ApiContext
    _codec: PaymentCodec

    async def ListPayments(
        self, request: listing_pb2.ListPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """List payments of all merchants of the partner."""
        page = await lists.list_for_partner(
            self._app, get_caller(), parse_list_query(request), request.merchant_id
        )
        return PaymentListCodec(self._codec).to_list_response(page)

    async def ListMerchantPayments(
        self, request: listing_pb2.ListMerchantPaymentsRequest, context: Any
    ) -> listing_pb2.ListPaymentsResponse:
        """List payments of the merchant."""
        page = await lists.list_for_merchant(self._app, get_caller(), parse_list_query(request))
        return PaymentListCodec(self._codec).to_list_response(page)

    async def ListPaymentsLegacy(
        self, request: listing_pb2.ListPaymentsLegacyRequest, context: Any
    ) -> listing_pb2.ListPaymentsLegacyResponse:
        """List payments of the merchant in the path, in the older form."""
        page = await lists.list_for_partner_merchant(
            self._app, get_caller(), parse_legacy_list_query(request), request.merchant_id
        )
        return PaymentListCodec(self._codec).to_legacy_response(page)
