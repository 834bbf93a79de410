"""Calls of a wallet, in the order in which wallets make them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from florin.v1.address_pb2 import OpenAddressesRequest, OpenAddressesResponse
from florin.v1.gateway_pb2 import (
    ACTION_RESULT_TYPE_WALLET_RPC,
    ActionResult,
    ConfirmPaymentRequest,
    FetchActionRequest,
    FetchActionResponse,
    GetPaymentOptionsRequest,
    GetPaymentOptionsResponse,
    PaymentInfo,
)
from florin.v1.held_pb2 import ClaimDepositRequest, ClaimDepositResponse
from florin.v1.payment_pb2 import (
    CancelPaymentRequest,
    CancelPaymentResponse,
    GetPaymentRequest,
    GetPaymentStatusRequest,
    GetPaymentStatusResponse,
    WatchPaymentRequest,
    WatchPaymentResponse,
)

from florin_client.calls.rpc import CallOptions, KeyedCallOptions, RpcCall, RpcSpec
from florin_client.calls.values import Json, to_json
from florin_client.calls.watching import PaymentWatch

_SERVICE_NAME = "GatewayService"
_GET = RpcSpec(_SERVICE_NAME, "GetPayment", GetPaymentRequest, PaymentInfo)
_OPTIONS = RpcSpec(
    _SERVICE_NAME, "GetPaymentOptions", GetPaymentOptionsRequest, GetPaymentOptionsResponse
)
_ADDRESSES = RpcSpec(_SERVICE_NAME, "OpenAddresses", OpenAddressesRequest, OpenAddressesResponse)
_CLAIM = RpcSpec(_SERVICE_NAME, "ClaimDeposit", ClaimDepositRequest, ClaimDepositResponse)
_FETCH = RpcSpec(_SERVICE_NAME, "FetchAction", FetchActionRequest, FetchActionResponse)
_CONFIRM = RpcSpec(_SERVICE_NAME, "ConfirmPayment", ConfirmPaymentRequest, GetPaymentStatusResponse)
_STATUS = RpcSpec(
    _SERVICE_NAME, "GetPaymentStatus", GetPaymentStatusRequest, GetPaymentStatusResponse
)
_CANCEL = RpcSpec(_SERVICE_NAME, "CancelPayment", CancelPaymentRequest, CancelPaymentResponse)
_WATCH = RpcSpec(_SERVICE_NAME, "WatchPayment", WatchPaymentRequest, WatchPaymentResponse)


def get_payment(payment_id: str, **options: Unpack[CallOptions]) -> RpcCall[PaymentInfo]:
    """Return amount, merchant and status of a payment, in every state.

    `payment_id` can be a link that contains the id.
    """
    return _GET(GetPaymentRequest(payment_id=payment_id), options)


def get_payment_options(
    payment_id: str,
    *,
    accounts: Iterable[str],
    include_payment_info: bool | None = None,
    **options: Unpack[CallOptions],
) -> RpcCall[GetPaymentOptionsResponse]:
    """List the payment options of the wallet's accounts (CAIP-10)."""
    request = GetPaymentOptionsRequest(
        payment_id=payment_id, accounts=accounts, include_payment_info=include_payment_info
    )
    return _OPTIONS(request, options)


def open_addresses(
    payment_id: str,
    *,
    assets: Iterable[str],
    refund_account: str | None = None,
    **options: Unpack[CallOptions],
) -> RpcCall[OpenAddressesResponse]:
    """Return addresses, one for each asset (CAIP-19), to which any wallet or exchange can send.

    What is not part of the payment goes back to `refund_account` (CAIP-10), otherwise to its sender
    as far as that is safe.
    """
    request = OpenAddressesRequest(
        payment_id=payment_id, assets=assets, refund_account=refund_account
    )
    return _ADDRESSES(request, options)


def claim_deposit(
    payment_id: str,
    *,
    asset: str,
    account: str,
    message: str | None = None,
    **options: Unpack[CallOptions],
) -> RpcCall[ClaimDepositResponse]:
    """Claim money of an asset (CAIP-19) that is held at the payment, for an account (CAIP-10).

    Money is held there if it came from an exchange or a contract and was not part of the payment.
    The merchant or the operator decides; `message` can help them to recognize the buyer. The same
    account again gets the same claims, as they are by then.
    """
    request = ClaimDepositRequest(
        payment_id=payment_id, asset=asset, account=account, message=message
    )
    return _CLAIM(request, options)


def fetch_action(
    payment_id: str,
    *,
    option_id: str,
    data: str = "",
    collected_data: Json = None,
    **options: Unpack[CallOptions],
) -> RpcCall[FetchActionResponse]:
    """Resolve a build action, given by its `data`, into actions that a wallet can execute.

    `collected_data` about the buyer is an object by the keys of the option's schema.
    """
    request = FetchActionRequest(
        payment_id=payment_id,
        option_id=option_id,
        data=data,
        collected_data_json=None if collected_data is None else to_json(collected_data),
    )
    return _FETCH(request, options)


def confirm_payment(
    payment_id: str,
    *,
    option_id: str,
    outputs: Iterable[Json],
    collected_data: Json = None,
    **options: Unpack[KeyedCallOptions],
) -> RpcCall[GetPaymentStatusResponse]:
    """Submit the outputs of an option's actions, one per action, and with them the payment.

    Outputs are texts in the form of a wallet's response: a signature, a transaction hash, or a
    signed transaction of Solana.
    """
    results = [
        ActionResult(type=ACTION_RESULT_TYPE_WALLET_RPC, output_json=[to_json(output)])
        for output in outputs
    ]
    request = ConfirmPaymentRequest(
        payment_id=payment_id,
        option_id=option_id,
        results=results,
        collected_data_json=None if collected_data is None else to_json(collected_data),
    )
    return _CONFIRM(request, options)


def get_payment_status(
    payment_id: str, **options: Unpack[CallOptions]
) -> RpcCall[GetPaymentStatusResponse]:
    """Return the current status of a payment; use `wait_final` to wait for the final status."""
    return _STATUS(GetPaymentStatusRequest(payment_id=payment_id), options)


def cancel_payment(
    payment_id: str, **options: Unpack[KeyedCallOptions]
) -> RpcCall[CancelPaymentResponse]:
    """Cancel a payment; only while it requires action."""
    return _CANCEL(CancelPaymentRequest(payment_id=payment_id), options)


def watch_payment(
    payment_id: str, *, after_version: int | None = None, **options: Unpack[CallOptions]
) -> PaymentWatch:
    """Stream the status of a payment, now and after each change, until it is final.

    No state comes twice; short-lived states can be skipped. A lost connection is reopened, and the
    stream continues after the last state. `timeout` limits the whole stream; by default it has
    none. Only versions above `after_version` are sent.
    """
    return PaymentWatch(_WATCH, payment_id, after_version, options)
