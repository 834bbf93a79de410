"""What a partner's back end asks: merchants, where they want their money, the sandbox."""

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

from florin_client.calls.paging import Listing
from florin_client.calls.rpc import Call, KeyedOptions, Options, Rpc

_NAME = "AdminService"
_CREATE = Rpc(_NAME, "CreateMerchant", CreateMerchantRequest, CreateMerchantResponse)
_LIST = Rpc(_NAME, "ListMerchants", ListMerchantsRequest, ListMerchantsResponse)
_GET = Rpc(_NAME, "GetMerchant", GetMerchantRequest, GetMerchantResponse)
_UPDATE = Rpc(_NAME, "UpdateMerchant", UpdateMerchantRequest, UpdateMerchantResponse)
_DELETE = Rpc(_NAME, "DeleteMerchant", DeleteMerchantRequest, DeleteMerchantResponse)
_PLACES = Rpc(_NAME, "ListSettlements", ListSettlementsRequest, Settlements)
_CREATE_PLACES = Rpc(
    _NAME,
    "CreateCryptoSettlements",
    CreateCryptoSettlementsRequest,
    CreateCryptoSettlementsResponse,
)
_UPDATE_PLACE = Rpc(
    _NAME, "UpdateCryptoSettlement", UpdateCryptoSettlementRequest, CryptoSettlement
)
_DELETE_PLACE = Rpc(
    _NAME, "DeleteCryptoSettlement", DeleteCryptoSettlementRequest, DeleteCryptoSettlementResponse
)
_SIMULATE = Rpc(_NAME, "SimulatePayment", SimulatePaymentRequest, GetPaymentStatusResponse)
_CLOCK = Rpc(_NAME, "GetTestClock", GetTestClockRequest, TestClock)
_ADVANCE = Rpc(_NAME, "AdvanceTestClock", AdvanceTestClockRequest, TestClock)


def create_merchant(
    *,
    merchant_name: str,
    merchant_email: str,
    icon_url: str | None = None,
    **options: Unpack[KeyedOptions],
) -> Call[CreateMerchantResponse]:
    """Creates a merchant of the partner."""
    request = CreateMerchantRequest(
        merchant_name=merchant_name, merchant_email=merchant_email, icon_url=icon_url
    )
    return _CREATE(request, options)


def list_merchants(
    *,
    status: MerchantStatus.ValueType = MERCHANT_STATUS_UNSPECIFIED,
    search: str | None = None,
    limit: int | None = None,
    **options: Unpack[Options],
) -> Listing[ListMerchantsResponse, MerchantRecord]:
    """Lists the merchants of the partner, newest first, page by page.

    `search` is a part of the name or id; `limit` the number of a page, 20 by default, 100 at most.
    """
    request = ListMerchantsRequest(status=status, search=search, limit=limit)
    return Listing(_LIST, request, options, _merchants, _cursor)


def get_merchant(merchant_id: str, **options: Unpack[Options]) -> Call[GetMerchantResponse]:
    """Tells one merchant with its settlements."""
    return _GET(GetMerchantRequest(merchant_id=merchant_id), options)


def update_merchant(
    merchant_id: str,
    *,
    merchant_name: str | None = None,
    merchant_email: str | None = None,
    icon_url: str | None = None,
    **options: Unpack[KeyedOptions],
) -> Call[UpdateMerchantResponse]:
    """Changes a merchant; what is None stays, an empty `icon_url` takes the logo away."""
    request = UpdateMerchantRequest(
        merchant_id=merchant_id,
        merchant_name=merchant_name,
        merchant_email=merchant_email,
        icon_url=icon_url,
    )
    return _UPDATE(request, options)


def delete_merchant(
    merchant_id: str, **options: Unpack[KeyedOptions]
) -> Call[DeleteMerchantResponse]:
    """Hides a merchant and stops new payments."""
    return _DELETE(DeleteMerchantRequest(merchant_id=merchant_id), options)


def list_settlements(merchant_id: str, **options: Unpack[Options]) -> Call[Settlements]:
    """Lists where a merchant wants its money."""
    return _PLACES(ListSettlementsRequest(merchant_id=merchant_id), options)


def create_crypto_settlements(
    merchant_id: str, *, destinations: Mapping[str, str], **options: Unpack[KeyedOptions]
) -> Call[CreateCryptoSettlementsResponse]:
    """Says where assets go, all of them or none: accounts (CAIP-10) by asset (CAIP-19)."""
    settlements = [
        NewCryptoSettlement(asset=asset, destination=destination)
        for asset, destination in destinations.items()
    ]
    request = CreateCryptoSettlementsRequest(merchant_id=merchant_id, settlements=settlements)
    return _CREATE_PLACES(request, options)


def update_crypto_settlement(
    merchant_id: str, settlement_id: str, *, destination: str, **options: Unpack[KeyedOptions]
) -> Call[CryptoSettlement]:
    """Changes where an asset goes; payments that wallets have options for keep theirs."""
    request = UpdateCryptoSettlementRequest(
        merchant_id=merchant_id, id=settlement_id, destination=destination
    )
    return _UPDATE_PLACE(request, options)


def delete_crypto_settlement(
    merchant_id: str, settlement_id: str, **options: Unpack[KeyedOptions]
) -> Call[DeleteCryptoSettlementResponse]:
    """Deletes a settlement; later payments in its asset are held for the merchant."""
    request = DeleteCryptoSettlementRequest(merchant_id=merchant_id, id=settlement_id)
    return _DELETE_PLACE(request, options)


def simulate_payment(
    payment_id: str, *, outcome: SimulatedOutcome.ValueType, **options: Unpack[KeyedOptions]
) -> Call[GetPaymentStatusResponse]:
    """Gives a test payment its outcome, without a wallet and without a chain."""
    return _SIMULATE(SimulatePaymentRequest(payment_id=payment_id, outcome=outcome), options)


def get_test_clock(**options: Unpack[Options]) -> Call[TestClock]:
    """Tells the time of the installation."""
    return _CLOCK(GetTestClockRequest(), options)


def advance_test_clock(*, seconds: int, **options: Unpack[KeyedOptions]) -> Call[TestClock]:
    """Moves the time of the installation on, for everybody, and that of its chains."""
    return _ADVANCE(AdvanceTestClockRequest(seconds=seconds), options)


def _merchants(page: ListMerchantsResponse) -> Iterable[MerchantRecord]:
    return page.merchants


def _cursor(page: ListMerchantsResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
