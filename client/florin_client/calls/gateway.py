"""What a wallet asks, in the order in which it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

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
from florin.v1.payment_pb2 import (
    CancelPaymentRequest,
    CancelPaymentResponse,
    GetPaymentRequest,
    GetPaymentStatusRequest,
    GetPaymentStatusResponse,
    WatchPaymentRequest,
    WatchPaymentResponse,
)

from florin_client.calls.rpc import Call, KeyedOptions, Options, Rpc
from florin_client.calls.values import Json, json_of
from florin_client.calls.watching import PaymentWatch

_NAME = "GatewayService"
_GET = Rpc(_NAME, "GetPayment", GetPaymentRequest, PaymentInfo)
_OPTIONS = Rpc(_NAME, "GetPaymentOptions", GetPaymentOptionsRequest, GetPaymentOptionsResponse)
_FETCH = Rpc(_NAME, "FetchAction", FetchActionRequest, FetchActionResponse)
_CONFIRM = Rpc(_NAME, "ConfirmPayment", ConfirmPaymentRequest, GetPaymentStatusResponse)
_STATUS = Rpc(_NAME, "GetPaymentStatus", GetPaymentStatusRequest, GetPaymentStatusResponse)
_CANCEL = Rpc(_NAME, "CancelPayment", CancelPaymentRequest, CancelPaymentResponse)
_WATCH = Rpc(_NAME, "WatchPayment", WatchPaymentRequest, WatchPaymentResponse)


def get_payment(payment_id: str, **options: Unpack[Options]) -> Call[PaymentInfo]:
    """Tells what a payment is about, in every state. `payment_id` may be a link that holds one."""
    return _GET(GetPaymentRequest(payment_id=payment_id), options)


def get_payment_options(
    payment_id: str,
    *,
    accounts: Iterable[str],
    include_payment_info: bool | None = None,
    **options: Unpack[Options],
) -> Call[GetPaymentOptionsResponse]:
    """Lists what the wallet's accounts (CAIP-10) can pay with."""
    request = GetPaymentOptionsRequest(
        payment_id=payment_id, accounts=accounts, include_payment_info=include_payment_info
    )
    return _OPTIONS(request, options)


def fetch_action(
    payment_id: str,
    *,
    option_id: str,
    data: str = "",
    collected_data: Json = None,
    **options: Unpack[Options],
) -> Call[FetchActionResponse]:
    """Resolves a build action, named by its `data`, into actions that a wallet can execute.

    `collected_data` about the buyer is an object by the keys of the option's schema.
    """
    request = FetchActionRequest(
        payment_id=payment_id,
        option_id=option_id,
        data=data,
        collected_data_json=None if collected_data is None else json_of(collected_data),
    )
    return _FETCH(request, options)


def confirm_payment(
    payment_id: str,
    *,
    option_id: str,
    outputs: Iterable[Json],
    collected_data: Json = None,
    **options: Unpack[KeyedOptions],
) -> Call[GetPaymentStatusResponse]:
    """Hands in what an option's actions gave, one output for each, and submits the payment.

    Outputs are texts as a wallet answers them: a signature, a transaction's hash, a signed
    transaction of Solana.
    """
    results = [
        ActionResult(type=ACTION_RESULT_TYPE_WALLET_RPC, output_json=[json_of(output)])
        for output in outputs
    ]
    request = ConfirmPaymentRequest(
        payment_id=payment_id,
        option_id=option_id,
        results=results,
        collected_data_json=None if collected_data is None else json_of(collected_data),
    )
    return _CONFIRM(request, options)


def get_payment_status(
    payment_id: str, **options: Unpack[Options]
) -> Call[GetPaymentStatusResponse]:
    """Tells where a payment stands; who waits for its end calls `wait_final`."""
    return _STATUS(GetPaymentStatusRequest(payment_id=payment_id), options)


def cancel_payment(payment_id: str, **options: Unpack[KeyedOptions]) -> Call[CancelPaymentResponse]:
    """Calls a payment off; only while it requires action."""
    return _CANCEL(CancelPaymentRequest(payment_id=payment_id), options)


def watch_payment(
    payment_id: str, *, after_version: int | None = None, **options: Unpack[Options]
) -> PaymentWatch:
    """Tells where a payment stands, and its newest state whenever that has changed, to the end.

    None is told twice; those that pass faster than they are read are left out. A connection that is
    lost is made again, and the stream goes on where it was. `timeout` bounds all of it; by default
    it has none. Only versions above `after_version` are told.
    """
    return PaymentWatch(_WATCH, payment_id, after_version, options)
