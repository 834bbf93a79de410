"""Merchants and settlements to messages and back."""

from __future__ import annotations

from collections.abc import Sequence

from florin.v1 import account_pb2

from florin_server.domain.payments.payment import BankAccount, Destination, Merchant
from florin_server.flows.accounts.destinations import NewSettlement
from florin_server.flows.accounts.merchants import Changes, Listed, NewMerchant
from florin_server.rpc.server.timestamps import timestamp
from florin_server.store.accounts.destinations import Settlements

_STATUS = {
    status: account_pb2.MerchantStatus.Value(f"MERCHANT_STATUS_{status.upper()}")
    for status in ("active", "inactive", "suspended")
}
_STATUS_TEXT = {number: text for text, number in _STATUS.items()}


def status_text(number: account_pb2.MerchantStatus.ValueType) -> str | None:
    """The status that a filter asks for; None for none."""
    return _STATUS_TEXT.get(number)


def new_merchant(request: account_pb2.CreateMerchantRequest) -> NewMerchant:
    """What a partner asks for."""
    icon_url = request.icon_url if request.HasField("icon_url") else None
    return NewMerchant(request.merchant_name, request.merchant_email, icon_url)


def changes(request: account_pb2.UpdateMerchantRequest) -> Changes:
    """What is to change."""
    return Changes(
        name=request.merchant_name if request.HasField("merchant_name") else None,
        email=request.merchant_email if request.HasField("merchant_email") else None,
        icon_url=request.icon_url if request.HasField("icon_url") else None,
    )


def new_settlements(request: account_pb2.CreateCryptoSettlementsRequest) -> list[NewSettlement]:
    """What a partner asks for."""
    return [NewSettlement(one.asset, one.destination) for one in request.settlements]


def record(merchant: Merchant) -> account_pb2.MerchantRecord:
    """A merchant as its partner sees it."""
    return account_pb2.MerchantRecord(
        id=merchant.id,
        name=merchant.name,
        email=merchant.email,
        status=_STATUS[merchant.status],
        icon_url=merchant.icon_url,
        created_at=timestamp(merchant.created_at_us),
    )


def created(merchant: Merchant) -> account_pb2.CreateMerchantResponse:
    """A new merchant."""
    return account_pb2.CreateMerchantResponse(merchant=record(merchant))


def updated(merchant: Merchant) -> account_pb2.UpdateMerchantResponse:
    """A changed merchant."""
    return account_pb2.UpdateMerchantResponse(merchant=record(merchant))


def deleted(merchant_id: str) -> account_pb2.DeleteMerchantResponse:
    """A deleted merchant."""
    return account_pb2.DeleteMerchantResponse(id=merchant_id, deleted=True)


def listed(page: Listed) -> account_pb2.ListMerchantsResponse:
    """One page."""
    return account_pb2.ListMerchantsResponse(
        merchants=[record(merchant) for merchant in page.merchants],
        total_count=page.total,
        next_cursor=page.next_cursor,
    )


def profile(merchant: Merchant, places: Settlements) -> account_pb2.GetMerchantResponse:
    """A merchant with its settlements."""
    return account_pb2.GetMerchantResponse(
        merchant=account_pb2.MerchantProfile(
            merchant=record(merchant), settlements=settlements(places)
        )
    )


def settlements(places: Settlements) -> account_pb2.Settlements:
    """All settlements of a merchant."""
    return account_pb2.Settlements(
        fiat=[fiat_settlement(account) for account in places.fiat],
        crypto=[crypto_settlement(place) for place in places.crypto],
    )


def crypto_settlement(place: Destination) -> account_pb2.CryptoSettlement:
    """Where one asset goes."""
    return account_pb2.CryptoSettlement(id=place.id, asset=place.asset, destination=place.account)


def fiat_settlement(account: BankAccount) -> account_pb2.FiatSettlement:
    """One bank account."""
    return account_pb2.FiatSettlement(
        id=account.id, status=account.status, bank_type=account.bank_type
    )


def settlements_created(
    places: Sequence[Destination],
) -> account_pb2.CreateCryptoSettlementsResponse:
    """New settlements."""
    return account_pb2.CreateCryptoSettlementsResponse(
        settlements=[crypto_settlement(place) for place in places]
    )


def settlement_deleted(settlement_id: str) -> account_pb2.DeleteCryptoSettlementResponse:
    """A deleted settlement."""
    return account_pb2.DeleteCryptoSettlementResponse(id=settlement_id, deleted=True)


def clock(now_us: int, *, movable: bool = True) -> account_pb2.TestClock:
    """The time of the installation."""
    return account_pb2.TestClock(now=timestamp(now_us), movable=movable)
