"""Convert merchants and settlements to messages and back."""

from __future__ import annotations

from collections.abc import Sequence

from florin.v1 import account_pb2, partner_pb2

from florin_server.accounts.service.destinations import NewDestination
from florin_server.accounts.service.merchants import MerchantChanges, MerchantListPage, NewMerchant
from florin_server.accounts.store.destinations import MerchantDestinations
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.accounts.contact import SupportContact
from florin_server.domain.payments.payment import BankAccount, Destination, Merchant

_STATUS = {
    status: account_pb2.MerchantStatus.Value(f"MERCHANT_STATUS_{status.upper()}")
    for status in ("active", "inactive", "suspended")
}
_STATUS_BY_NUMBER = {number: text for text, number in _STATUS.items()}


def parse_status_filter(number: account_pb2.MerchantStatus.ValueType) -> str | None:
    """Return the status of a filter; None for no status."""
    return _STATUS_BY_NUMBER.get(number)


def parse_new_merchant(request: account_pb2.CreateMerchantRequest) -> NewMerchant:
    """Return the merchant that a partner wants to create."""
    icon_url = request.icon_url if request.HasField("icon_url") else None
    return NewMerchant(
        request.merchant_name, request.merchant_email, icon_url, parse_support_contact(request)
    )


def parse_merchant_changes(request: account_pb2.UpdateMerchantRequest) -> MerchantChanges:
    """Return the requested changes."""
    return MerchantChanges(
        name=request.merchant_name if request.HasField("merchant_name") else None,
        email=request.merchant_email if request.HasField("merchant_email") else None,
        icon_url=request.icon_url if request.HasField("icon_url") else None,
        support=parse_support_contact(request),
        accent=request.accent if request.HasField("accent") else None,
    )


def parse_support_contact(
    request: account_pb2.CreateMerchantRequest
    | account_pb2.UpdateMerchantRequest
    | partner_pb2.ImportMerchantRequest
    | partner_pb2.SetMerchantSupportRequest,
) -> SupportContact:
    """Return the contact for buyers in a request."""
    return SupportContact(
        request.support_email if request.HasField("support_email") else None,
        request.support_url if request.HasField("support_url") else None,
    )


def parse_new_destinations(
    request: account_pb2.CreateCryptoSettlementsRequest,
) -> list[NewDestination]:
    """Return the requested settlement destinations."""
    return [
        NewDestination(new_crypto_settlement.asset, new_crypto_settlement.destination)
        for new_crypto_settlement in request.settlements
    ]


def to_merchant_record(merchant: Merchant) -> account_pb2.MerchantRecord:
    """Return a merchant as its partner sees it."""
    return account_pb2.MerchantRecord(
        id=merchant.id,
        name=merchant.name,
        email=merchant.email,
        status=_STATUS[merchant.status],
        icon_url=merchant.icon_url,
        created_at=to_timestamp(merchant.created_at_us),
        support_email=merchant.support_email,
        support_url=merchant.support_url,
        accent=merchant.accent,
    )


def to_create_merchant_response(merchant: Merchant) -> account_pb2.CreateMerchantResponse:
    """Return the response with a created merchant."""
    return account_pb2.CreateMerchantResponse(merchant=to_merchant_record(merchant))


def to_update_merchant_response(merchant: Merchant) -> account_pb2.UpdateMerchantResponse:
    """Return the response with a changed merchant."""
    return account_pb2.UpdateMerchantResponse(merchant=to_merchant_record(merchant))


def to_delete_merchant_response(merchant_id: str) -> account_pb2.DeleteMerchantResponse:
    """Return the response with a deleted merchant."""
    return account_pb2.DeleteMerchantResponse(id=merchant_id, deleted=True)


def to_list_merchants_response(page: MerchantListPage) -> account_pb2.ListMerchantsResponse:
    """Return the response with one page of merchants."""
    return account_pb2.ListMerchantsResponse(
        merchants=[to_merchant_record(merchant) for merchant in page.merchants],
        total_count=page.total,
        next_cursor=page.next_cursor,
    )


def to_get_merchant_response(
    merchant: Merchant, destinations: MerchantDestinations
) -> account_pb2.GetMerchantResponse:
    """Return the response with a merchant and its settlements."""
    return account_pb2.GetMerchantResponse(
        merchant=account_pb2.MerchantProfile(
            merchant=to_merchant_record(merchant), settlements=to_settlements(destinations)
        )
    )


def to_settlements(destinations: MerchantDestinations) -> account_pb2.Settlements:
    """Return all settlements of a merchant."""
    return account_pb2.Settlements(
        fiat=[to_fiat_settlement(account) for account in destinations.fiat],
        crypto=[to_crypto_settlement(place) for place in destinations.crypto],
    )


def to_crypto_settlement(destination: Destination) -> account_pb2.CryptoSettlement:
    """Return the settlement of one asset."""
    return account_pb2.CryptoSettlement(
        id=destination.id, asset=destination.asset, destination=destination.account
    )


def to_fiat_settlement(account: BankAccount) -> account_pb2.FiatSettlement:
    """Return one bank account."""
    return account_pb2.FiatSettlement(
        id=account.id, status=account.status, bank_type=account.bank_type
    )


def to_create_settlements_response(
    destinations: Sequence[Destination],
) -> account_pb2.CreateCryptoSettlementsResponse:
    """Return the response with created settlements."""
    return account_pb2.CreateCryptoSettlementsResponse(
        settlements=[to_crypto_settlement(place) for place in destinations]
    )


def to_delete_settlement_response(settlement_id: str) -> account_pb2.DeleteCryptoSettlementResponse:
    """Return the response with a deleted settlement."""
    return account_pb2.DeleteCryptoSettlementResponse(id=settlement_id, deleted=True)


def to_test_clock(now_us: int, *, movable: bool = True) -> account_pb2.TestClock:
    """Return the clock of the installation."""
    return account_pb2.TestClock(now=to_timestamp(now_us), movable=movable)
