"""What a merchant's back end asks: payments, what became of them, refunds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TypeVar, Unpack

from florin.v1.listing_pb2 import (
    PAYMENT_SORT_UNSPECIFIED,
    SORT_DIRECTION_UNSPECIFIED,
    ListMerchantPaymentsRequest,
    ListPaymentsRequest,
    ListPaymentsResponse,
    PaymentRow,
    PaymentSort,
    SortDirection,
)
from florin.v1.merchant_pb2 import (
    CheckoutUrls,
    CreatePaymentRequest,
    CreatePaymentResponse,
    PaymentDetail,
)
from florin.v1.payment_pb2 import (
    CancelPaymentRequest,
    CancelPaymentResponse,
    GetPaymentRequest,
    GetPaymentStatusRequest,
    GetPaymentStatusResponse,
    ListPaymentEventsRequest,
    ListPaymentEventsResponse,
    PaymentStatus,
    WatchPaymentRequest,
    WatchPaymentResponse,
)
from florin.v1.receipt_pb2 import GetReceiptRequest, GetReceiptResponse
from florin.v1.refund_pb2 import (
    CreateRefundRequest,
    CreateRefundResponse,
    RefundAmount,
    WatchRefundRequest,
    WatchRefundResponse,
)

from florin_client.calls.paging import Listing
from florin_client.calls.rpc import Call, KeyedOptions, Options, Rpc
from florin_client.calls.values import Money, amount_of, timestamp_of
from florin_client.calls.watching import PaymentWatch, RefundWatch


class MerchantOptions(Options, total=False):
    """What a call may be told; `merchant_id` stands in for the client's."""

    merchant_id: str


class KeyedMerchantOptions(KeyedOptions, total=False):
    """The same for a call that changes something."""

    merchant_id: str


class ListOptions(MerchantOptions, total=False):
    """Which payments a list has, and in which order.

    Created at `start` or later and before `end`; `reference_id` is a part of the reference, three
    characters at least; `limit` is the number of rows of a page, 50 by default and 200 at most.
    """

    start: dt.datetime | None
    end: dt.datetime | None
    status: Iterable[PaymentStatus.ValueType]
    token_symbol: Iterable[str]
    network: Iterable[str]
    reference_id: str | None
    sort_by: PaymentSort.ValueType
    sort_dir: SortDirection.ValueType
    limit: int | None


_List = TypeVar("_List", ListPaymentsRequest, ListMerchantPaymentsRequest)

_NAME = "MerchantService"
_CREATE = Rpc(_NAME, "CreatePayment", CreatePaymentRequest, CreatePaymentResponse)
_GET = Rpc(_NAME, "GetPayment", GetPaymentRequest, PaymentDetail)
_EVENTS = Rpc(_NAME, "ListPaymentEvents", ListPaymentEventsRequest, ListPaymentEventsResponse)
_STATUS = Rpc(_NAME, "GetPaymentStatus", GetPaymentStatusRequest, GetPaymentStatusResponse)
_RECEIPT = Rpc(_NAME, "GetReceipt", GetReceiptRequest, GetReceiptResponse)
_WATCH = Rpc(_NAME, "WatchPayment", WatchPaymentRequest, WatchPaymentResponse)
_CANCEL = Rpc(_NAME, "CancelPayment", CancelPaymentRequest, CancelPaymentResponse)
_LIST = Rpc(_NAME, "ListPayments", ListPaymentsRequest, ListPaymentsResponse)
_LIST_OWN = Rpc(_NAME, "ListMerchantPayments", ListMerchantPaymentsRequest, ListPaymentsResponse)
_REFUND = Rpc(_NAME, "CreateRefund", CreateRefundRequest, CreateRefundResponse)
_WATCH_REFUND = Rpc(_NAME, "WatchRefund", WatchRefundRequest, WatchRefundResponse)


def create_payment(
    *,
    amount: Money,
    reference_id: str | None = None,
    expires_at: int | None = None,
    checkout: CheckoutUrls | None = None,
    **options: Unpack[KeyedMerchantOptions],
) -> Call[CreatePaymentResponse]:
    """Creates a payment.

    `amount` is a unit and minor units, ("iso4217/USD", 1250) for 12.50 USD; `reference_id` the
    merchant's own order reference; `expires_at` in Unix seconds, 15 minutes from now by default;
    `checkout` where the buyer goes afterwards.
    """
    request = CreatePaymentRequest(
        amount=amount_of(amount),
        reference_id=reference_id,
        expires_at=expires_at,
        checkout=checkout,
    )
    return _CREATE(request, options)


def get_payment(payment_id: str, **options: Unpack[MerchantOptions]) -> Call[PaymentDetail]:
    """Tells everything about one payment of the merchant."""
    return _GET(GetPaymentRequest(payment_id=payment_id), options)


def get_receipt(payment_id: str, **options: Unpack[MerchantOptions]) -> Call[GetReceiptResponse]:
    """Tells what was paid, signed; StateError unless it succeeded, on a chain."""
    return _RECEIPT(GetReceiptRequest(payment_id=payment_id), options)


def list_payment_events(
    payment_id: str, **options: Unpack[MerchantOptions]
) -> Call[ListPaymentEventsResponse]:
    """Lists what happened to one payment of the merchant, the oldest first."""
    return _EVENTS(ListPaymentEventsRequest(payment_id=payment_id), options)


def get_payment_status(
    payment_id: str, **options: Unpack[MerchantOptions]
) -> Call[GetPaymentStatusResponse]:
    """Tells where a payment stands; who waits for its end calls `wait_final`."""
    return _STATUS(GetPaymentStatusRequest(payment_id=payment_id), options)


def watch_payment(
    payment_id: str, *, after_version: int | None = None, **options: Unpack[MerchantOptions]
) -> PaymentWatch:
    """Tells where a payment stands, and its newest state whenever that has changed, to the end.

    None is told twice; those that pass faster than they are read are left out. A connection that is
    lost is made again, and the stream goes on where it was. `timeout` bounds all of it; by default
    it has none. Only versions above `after_version` are told.
    """
    return PaymentWatch(_WATCH, payment_id, after_version, options)


def cancel_payment(
    payment_id: str, **options: Unpack[KeyedMerchantOptions]
) -> Call[CancelPaymentResponse]:
    """Calls a payment off; only while it requires action."""
    return _CANCEL(CancelPaymentRequest(payment_id=payment_id), options)


def list_payments(
    *, merchant_ids: Iterable[str] = (), **options: Unpack[ListOptions]
) -> Listing[ListPaymentsResponse, PaymentRow]:
    """Lists the payments of all merchants of the partner, newest first, page by page."""
    request = ListPaymentsRequest(merchant_id=merchant_ids)
    return Listing(_LIST, _filtered(request, options), options, _rows, _cursor)


def list_merchant_payments(
    **options: Unpack[ListOptions],
) -> Listing[ListPaymentsResponse, PaymentRow]:
    """Lists the payments of the merchant, as `list_payments` does those of all."""
    request = ListMerchantPaymentsRequest()
    return Listing(_LIST_OWN, _filtered(request, options), options, _rows, _cursor)


def create_refund(
    payment_id: str,
    *,
    amount: Money | None = None,
    reason: str | None = None,
    **options: Unpack[KeyedMerchantOptions],
) -> Call[CreateRefundResponse]:
    """Pay a succeeded payment back to the account that paid it: all of it, or an `amount`.

    The amount is in units of the token that was paid or in the payment's own currency; a payment
    takes several such refunds. Without one all goes back, which only its first refund can do.
    `reason` is kept for your records.
    """
    request = CreateRefundRequest(payment_id=payment_id, reason=reason)
    if amount is not None:
        named = amount_of(amount)
        request.amount.CopyFrom(RefundAmount(unit=named.unit, value=named.value))
    return _REFUND(request, options)


def watch_refund(
    payment_id: str, *, refund_id: str | None = None, **options: Unpack[MerchantOptions]
) -> RefundWatch:
    """Stream a refund of a payment until it is final: as it is, and whenever its status changes.

    The newest one unless `refund_id` names another.
    """
    return RefundWatch(_WATCH_REFUND, payment_id, refund_id, options)


def _filtered(request: _List, given: ListOptions) -> _List:
    filters = type(request)(
        start_ts=timestamp_of(given.get("start")),
        end_ts=timestamp_of(given.get("end")),
        status=given.get("status", ()),
        token_symbol=given.get("token_symbol", ()),
        network=given.get("network", ()),
        reference_id=given.get("reference_id"),
        sort_by=given.get("sort_by", PAYMENT_SORT_UNSPECIFIED),
        sort_dir=given.get("sort_dir", SORT_DIRECTION_UNSPECIFIED),
        limit=given.get("limit"),
    )
    request.MergeFrom(filters)
    return request


def _rows(page: ListPaymentsResponse) -> Iterable[PaymentRow]:
    return page.data


def _cursor(page: ListPaymentsResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
