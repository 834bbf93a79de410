"""Calls of a merchant's back end: payments and refunds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TypeVar, Unpack

from florin.v1.held_pb2 import (
    DecideDepositClaimRequest,
    DepositClaim,
    ListDepositClaimsRequest,
    ListDepositClaimsResponse,
)
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
    PaymentLine,
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

from florin_client.calls.paging import PagedQuery
from florin_client.calls.rpc import CallOptions, KeyedCallOptions, RpcCall, RpcSpec
from florin_client.calls.values import Money, to_amount, to_timestamp
from florin_client.calls.watching import PaymentWatch, RefundWatch


class MerchantCallOptions(CallOptions, total=False):
    """Options of a call; `merchant_id` overrides the client's."""

    merchant_id: str


class KeyedMerchantCallOptions(KeyedCallOptions, total=False):
    """Options of a call that changes data."""

    merchant_id: str


class ListPaymentsCallOptions(MerchantCallOptions, total=False):
    """Filters and order of a list of payments.

    Created at `start` or later and before `end`; `reference_id` is a part of the reference, three
    characters at least; `limit` is the page size, 50 by default and 200 at most.
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

_SERVICE_NAME = "MerchantService"
_CREATE = RpcSpec(_SERVICE_NAME, "CreatePayment", CreatePaymentRequest, CreatePaymentResponse)
_GET = RpcSpec(_SERVICE_NAME, "GetPayment", GetPaymentRequest, PaymentDetail)
_EVENTS = RpcSpec(
    _SERVICE_NAME, "ListPaymentEvents", ListPaymentEventsRequest, ListPaymentEventsResponse
)
_STATUS = RpcSpec(
    _SERVICE_NAME, "GetPaymentStatus", GetPaymentStatusRequest, GetPaymentStatusResponse
)
_RECEIPT = RpcSpec(_SERVICE_NAME, "GetReceipt", GetReceiptRequest, GetReceiptResponse)
_WATCH = RpcSpec(_SERVICE_NAME, "WatchPayment", WatchPaymentRequest, WatchPaymentResponse)
_CANCEL = RpcSpec(_SERVICE_NAME, "CancelPayment", CancelPaymentRequest, CancelPaymentResponse)
_LIST = RpcSpec(_SERVICE_NAME, "ListPayments", ListPaymentsRequest, ListPaymentsResponse)
_LIST_OF_MERCHANT = RpcSpec(
    _SERVICE_NAME, "ListMerchantPayments", ListMerchantPaymentsRequest, ListPaymentsResponse
)
_REFUND = RpcSpec(_SERVICE_NAME, "CreateRefund", CreateRefundRequest, CreateRefundResponse)
_CLAIMS = RpcSpec(
    _SERVICE_NAME, "ListDepositClaims", ListDepositClaimsRequest, ListDepositClaimsResponse
)
_CONFIRM_CLAIM = RpcSpec(
    _SERVICE_NAME, "ConfirmDepositClaim", DecideDepositClaimRequest, DepositClaim
)
_REJECT_CLAIM = RpcSpec(
    _SERVICE_NAME, "RejectDepositClaim", DecideDepositClaimRequest, DepositClaim
)
_WATCH_REFUND = RpcSpec(_SERVICE_NAME, "WatchRefund", WatchRefundRequest, WatchRefundResponse)


def create_payment(
    *,
    amount: Money,
    reference_id: str | None = None,
    expires_at: int | None = None,
    checkout: CheckoutUrls | None = None,
    description: str | None = None,
    lines: Iterable[PaymentLine] = (),
    metadata: Mapping[str, str] | None = None,
    **options: Unpack[KeyedMerchantCallOptions],
) -> RpcCall[CreatePaymentResponse]:
    """Create a payment.

    `amount` is a unit and minor units: ("iso4217/USD", 1250) for 12.50 USD. `reference_id` is the
    merchant's own order reference. `expires_at` is in Unix seconds, by default 15 minutes from now.
    `checkout` has the redirect targets for the buyer.

    Buyers see the `description` and the `lines` of the order, whose amounts add up to `amount`. The
    `metadata` are your own texts by name: only merchant reads, lists, webhooks and exports have
    them.
    """
    request = CreatePaymentRequest(
        amount=to_amount(amount),
        reference_id=reference_id,
        expires_at=expires_at,
        checkout=checkout,
        description=description,
        lines=lines,
        metadata=metadata,
    )
    return _CREATE(request, options)


def get_payment(payment_id: str, **options: Unpack[MerchantCallOptions]) -> RpcCall[PaymentDetail]:
    """Return all details of one payment of the merchant."""
    return _GET(GetPaymentRequest(payment_id=payment_id), options)


def get_receipt(
    payment_id: str, **options: Unpack[MerchantCallOptions]
) -> RpcCall[GetReceiptResponse]:
    """Return the signed receipt of a payment; StateError unless it succeeded on a chain."""
    return _RECEIPT(GetReceiptRequest(payment_id=payment_id), options)


def list_payment_events(
    payment_id: str, **options: Unpack[MerchantCallOptions]
) -> RpcCall[ListPaymentEventsResponse]:
    """List the changes of one payment of the merchant, oldest first."""
    return _EVENTS(ListPaymentEventsRequest(payment_id=payment_id), options)


def get_payment_status(
    payment_id: str, **options: Unpack[MerchantCallOptions]
) -> RpcCall[GetPaymentStatusResponse]:
    """Return the current status of a payment; use `wait_final` to wait for the final status."""
    return _STATUS(GetPaymentStatusRequest(payment_id=payment_id), options)


def watch_payment(
    payment_id: str, *, after_version: int | None = None, **options: Unpack[MerchantCallOptions]
) -> PaymentWatch:
    """Stream the status of a payment, now and after each change, until it is final.

    No state comes twice; short-lived states can be skipped. A lost connection is reopened, and the
    stream continues after the last state. `timeout` limits the whole stream; by default it has
    none. Only versions above `after_version` are sent.
    """
    return PaymentWatch(_WATCH, payment_id, after_version, options)


def cancel_payment(
    payment_id: str, **options: Unpack[KeyedMerchantCallOptions]
) -> RpcCall[CancelPaymentResponse]:
    """Cancel a payment; only while it requires action."""
    return _CANCEL(CancelPaymentRequest(payment_id=payment_id), options)


def list_payments(
    *, merchant_ids: Iterable[str] = (), **options: Unpack[ListPaymentsCallOptions]
) -> PagedQuery[ListPaymentsResponse, PaymentRow]:
    """List the payments of all merchants of the partner, newest first, page by page."""
    request = ListPaymentsRequest(merchant_id=merchant_ids)
    return PagedQuery(_LIST, _apply_filters(request, options), options, _get_rows, _find_cursor)


def list_merchant_payments(
    **options: Unpack[ListPaymentsCallOptions],
) -> PagedQuery[ListPaymentsResponse, PaymentRow]:
    """List the payments of the merchant, like `list_payments` for all merchants."""
    request = ListMerchantPaymentsRequest()
    return PagedQuery(
        _LIST_OF_MERCHANT, _apply_filters(request, options), options, _get_rows, _find_cursor
    )


def create_refund(
    payment_id: str,
    *,
    amount: Money | None = None,
    reason: str | None = None,
    **options: Unpack[KeyedMerchantCallOptions],
) -> RpcCall[CreateRefundResponse]:
    """Refund a succeeded payment to the account that paid it: fully, or an `amount`.

    The amount is in units of the token that was paid, or in the payment's own currency; a payment
    can have several such refunds. Without an amount the full payment is refunded, which only its
    first refund can do. `reason` is kept for your records.
    """
    request = CreateRefundRequest(payment_id=payment_id, reason=reason)
    if amount is not None:
        named = to_amount(amount)
        request.amount.CopyFrom(RefundAmount(unit=named.unit, value=named.value))
    return _REFUND(request, options)


def list_deposit_claims(
    payment_id: str, **options: Unpack[MerchantCallOptions]
) -> RpcCall[ListDepositClaimsResponse]:
    """List the claims of buyers for money that is held at a payment, the oldest first."""
    return _CLAIMS(ListDepositClaimsRequest(payment_id=payment_id), options)


def confirm_deposit_claim(
    payment_id: str, *, claim_id: str, **options: Unpack[KeyedMerchantCallOptions]
) -> RpcCall[DepositClaim]:
    """Return the held money of a claim to its account; other claims for it are rejected.

    Anyone with the payment's link can claim: check with the buyer first.
    """
    request = DecideDepositClaimRequest(payment_id=payment_id, claim_id=claim_id)
    return _CONFIRM_CLAIM(request, options)


def reject_deposit_claim(
    payment_id: str, *, claim_id: str, **options: Unpack[KeyedMerchantCallOptions]
) -> RpcCall[DepositClaim]:
    """Reject a claim; the money stays held."""
    request = DecideDepositClaimRequest(payment_id=payment_id, claim_id=claim_id)
    return _REJECT_CLAIM(request, options)


def watch_refund(
    payment_id: str, *, refund_id: str | None = None, **options: Unpack[MerchantCallOptions]
) -> RefundWatch:
    """Stream a refund of a payment, now and after each change of its status, until it is final.

    It is the newest refund, unless `refund_id` selects another.
    """
    return RefundWatch(_WATCH_REFUND, payment_id, refund_id, options)


def _apply_filters(request: _List, options: ListPaymentsCallOptions) -> _List:
    filters = type(request)(
        start_ts=to_timestamp(options.get("start")),
        end_ts=to_timestamp(options.get("end")),
        status=options.get("status", ()),
        token_symbol=options.get("token_symbol", ()),
        network=options.get("network", ()),
        reference_id=options.get("reference_id"),
        sort_by=options.get("sort_by", PAYMENT_SORT_UNSPECIFIED),
        sort_dir=options.get("sort_dir", SORT_DIRECTION_UNSPECIFIED),
        limit=options.get("limit"),
    )
    request.MergeFrom(filters)
    return request


def _get_rows(page: ListPaymentsResponse) -> Iterable[PaymentRow]:
    return page.data


def _find_cursor(page: ListPaymentsResponse) -> str | None:
    return page.next_cursor if page.HasField("next_cursor") else None
