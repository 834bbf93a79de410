"""Calls of a partner's back end: merchants, settlement destinations, the sandbox."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

from florin.v1.account_pb2 import (
    MERCHANT_STATUS_UNSPECIFIED,
    AdvanceTestClockRequest,
    CreateCryptoSettlementsRequest,
    CreateCryptoSettlementsResponse,
    CreateMerchantRequest,
    CreateMerchantResponse,
    CryptoSettlement,
    DeleteCryptoSettlementRequest,
    DeleteCryptoSettlementResponse,
    DeleteMerchantRequest,
    DeleteMerchantResponse,
    GetMerchantRequest,
    GetMerchantResponse,
    GetTestClockRequest,
    ListMerchantsRequest,
    ListMerchantsResponse,
    ListSettlementsRequest,
    MerchantRecord,
    MerchantStatus,
    NewCryptoSettlement,
    Settlements,
    SimulatedOutcome,
    SimulatePaymentRequest,
    TestClock,
    UpdateCryptoSettlementRequest,
    UpdateMerchantRequest,
    UpdateMerchantResponse,
)
from florin.v1.payment_pb2 import GetPaymentStatusResponse

from florin_client.calls.paging import PagedQuery
from florin_client.calls.rpc import CallOptions, KeyedCallOptions, RpcCall, RpcSpec

_SERVICE_NAME = "AdminService"
_CREATE = RpcSpec(_SERVICE_NAME, "CreateMerchant", CreateMerchantRequest, CreateMerchantResponse)
_LIST = RpcSpec(_SERVICE_NAME, "ListMerchants", ListMerchantsRequest, ListMerchantsResponse)
_GET = RpcSpec(_SERVICE_NAME, "GetMerchant", GetMerchantRequest, GetMerchantResponse)
_UPDATE = RpcSpec(_SERVICE_NAME, "UpdateMerchant", UpdateMerchantRequest, UpdateMerchantResponse)
_DELETE = RpcSpec(_SERVICE_NAME, "DeleteMerchant", DeleteMerchantRequest, DeleteMerchantResponse)
_LIST_SETTLEMENTS = RpcSpec(_SERVICE_NAME, "ListSettlements", ListSettlementsRequest, Settlements)
_CREATE_SETTLEMENTS = RpcSpec(
    _SERVICE_NAME,
    "CreateCryptoSettlements",
    CreateCryptoSettlementsRequest,
    CreateCryptoSettlementsResponse,
)
_UPDATE_SETTLEMENT = RpcSpec(
    _SERVICE_NAME, "UpdateCryptoSettlement", UpdateCryptoSettlementRequest, CryptoSettlement
)
_DELETE_SETTLEMENT = RpcSpec(
    _SERVICE_NAME,
    "DeleteCryptoSettlement",
    DeleteCryptoSettlementRequest,
    DeleteCryptoSettlementResponse,
)
_SIMULATE = RpcSpec(
    _SERVICE_NAME, "SimulatePayment", SimulatePaymentRequest, GetPaymentStatusResponse
)
_GET_CLOCK = RpcSpec(_SERVICE_NAME, "GetTestClock", GetTestClockRequest, TestClock)
_ADVANCE_CLOCK = RpcSpec(_SERVICE_NAME, "AdvanceTestClock", AdvanceTestClockRequest, TestClock)


def create_merchant(
    *,
    merchant_name: str,
    merchant_email: str,
    icon_url: str | None = None,
    support_email: str | None = None,
    support_url: str | None = None,
    **options: Unpack[KeyedCallOptions],
) -> RpcCall[CreateMerchantResponse]:
    """Create a merchant of the partner; buyers see `support_email` and `support_url`."""
    request = CreateMerchantRequest(
        merchant_name=merchant_name,
        merchant_email=merchant_email,
        icon_url=icon_url,
        support_email=support_email,
        support_url=support_url,
    )
    return _CREATE(request, options)


def list_merchants(
    *,
    status: MerchantStatus.ValueType = MERCHANT_STATUS_UNSPECIFIED,
    search: str | None = None,
    limit: int | None = None,
    **options: Unpack[CallOptions],
) -> PagedQuery[ListMerchantsResponse, MerchantRecord]:
    """List the merchants of the partner, newest first, page by page.

    `search` is a part of the name or id; `limit` is the page size, 20 by default, 100 at most.
    """
    request = ListMerchantsRequest(status=status, search=search, limit=limit)
    return PagedQuery(_LIST, request, options, _get_merchants, _find_cursor)


def get_merchant(merchant_id: str, **options: Unpack[CallOptions]) -> RpcCall[GetMerchantResponse]:
    """Return one merchant with its settlements."""
    return _GET(GetMerchantRequest(merchant_id=merchant_id), options)


def update_merchant(
    merchant_id: str,
    *,
    merchant_name: str | None = None,
    merchant_email: str | None = None,
    icon_url: str | None = None,
    support_email: str | None = None,
    support_url: str | None = None,
    accent: str | None = None,
    **options: Unpack[KeyedCallOptions],
) -> RpcCall[UpdateMerchantResponse]:
    """Change a merchant; None keeps a value.

    `accent` is the color of its pages, for example "#0a7d5b". An empty `icon_url`, `support_email`,
    `support_url` or `accent` removes the value.
    """
    request = UpdateMerchantRequest(
        merchant_id=merchant_id,
        merchant_name=merchant_name,
        merchant_email=merchant_email,
        icon_url=icon_url,
        support_email=support_email,
        support_url=support_url,
        accent=accent,
    )
    return _UPDATE(request, options)


def delete_merchant(
    merchant_id: str, **options: Unpack[KeyedCallOptions]
) -> RpcCall[DeleteMerchantResponse]:
    """Hide a merchant and stop new payments."""
    return _DELETE(DeleteMerchantRequest(merchant_id=merchant_id), options)


def list_settlements(merchant_id: str, **options: Unpack[CallOptions]) -> RpcCall[Settlements]:
    """List the settlement destinations of a merchant."""
    return _LIST_SETTLEMENTS(ListSettlementsRequest(merchant_id=merchant_id), options)


def create_crypto_settlements(
    merchant_id: str, *, destinations: Mapping[str, str], **options: Unpack[KeyedCallOptions]
) -> RpcCall[CreateCryptoSettlementsResponse]:
    """Set destinations, all of them or none: accounts (CAIP-10) by asset (CAIP-19)."""
    settlements = [
        NewCryptoSettlement(asset=asset, destination=destination)
        for asset, destination in destinations.items()
    ]
    request = CreateCryptoSettlementsRequest(merchant_id=merchant_id, settlements=settlements)
    return _CREATE_SETTLEMENTS(request, options)


def update_crypto_settlement(
    merchant_id: str, settlement_id: str, *, destination: str, **options: Unpack[KeyedCallOptions]
) -> RpcCall[CryptoSettlement]:
    """Change the destination of an asset; payments with options keep the old destination."""
    request = UpdateCryptoSettlementRequest(
        merchant_id=merchant_id, id=settlement_id, destination=destination
    )
    return _UPDATE_SETTLEMENT(request, options)


def delete_crypto_settlement(
    merchant_id: str, settlement_id: str, **options: Unpack[KeyedCallOptions]
) -> RpcCall[DeleteCryptoSettlementResponse]:
    """Delete a settlement; the operator receives and owes later payments in its asset."""
    request = DeleteCryptoSettlementRequest(merchant_id=merchant_id, id=settlement_id)
    return _DELETE_SETTLEMENT(request, options)


def simulate_payment(
    payment_id: str, *, outcome: SimulatedOutcome.ValueType, **options: Unpack[KeyedCallOptions]
) -> RpcCall[GetPaymentStatusResponse]:
    """Set the outcome of a test payment, without a wallet or a chain."""
    return _SIMULATE(SimulatePaymentRequest(payment_id=payment_id, outcome=outcome), options)


def get_test_clock(**options: Unpack[CallOptions]) -> RpcCall[TestClock]:
    """Return the current time of the installation."""
    return _GET_CLOCK(GetTestClockRequest(), options)


def advance_test_clock(*, seconds: int, **options: Unpack[KeyedCallOptions]) -> RpcCall[TestClock]:
    """Move the clock of the installation, and those of its chains, forward for all callers."""
    return _ADVANCE_CLOCK(AdvanceTestClockRequest(seconds=seconds), options)


def _get_merchants(page: ListMerchantsResponse) -> Iterable[MerchantRecord]:
    return page.merchants


def _find_cursor(page: ListMerchantsResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
