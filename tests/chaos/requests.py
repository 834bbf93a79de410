"""The requests of racing clients: one purpose per idempotency key, in two or three versions.

Both clients walk through the same keys, so that they meet at the first use of each. What a request
requires (a payment to cancel, a merchant with a destination) is created under a separate key, so
that both clients use the same one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from florin.v1 import account_pb2, merchant_pb2, payment_pb2, refund_pb2
from google.protobuf.message import Message

MERCHANT, ADMIN = "florin.v1.MerchantService", "florin.v1.AdminService"
ASSET = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"


@dataclass(frozen=True)
class Request:
    """One request in both protocols. A `refused` request can never succeed."""

    http: tuple[str, Any]
    rpc: tuple[str, Message, type[Message]]
    refused: bool = False


# sends a request under a key until it is answered, and returns the answer
Ask = Callable[[Request, str], Awaitable[dict[str, Any]]]


def create(reference: str, value: int, expires_at: int | None = None) -> Request:
    amount = {"unit": "iso4217/USD", "value": str(value)}
    body = {"amount": amount, "referenceId": reference}
    if expires_at is not None:
        body["expiresAt"] = expires_at
    message = merchant_pb2.CreatePaymentRequest(
        amount=amount, reference_id=reference, expires_at=expires_at
    )
    rpc = (f"/{MERCHANT}/CreatePayment", message, merchant_pb2.CreatePaymentResponse)
    return Request(("/v1/payments", body), rpc, refused=expires_at is not None)


def cancel(payment_id: str) -> Request:
    message = payment_pb2.CancelPaymentRequest(payment_id=payment_id)
    rpc = (f"/{MERCHANT}/CancelPayment", message, payment_pb2.CancelPaymentResponse)
    return Request((f"/v1/payments/{payment_id}/cancel", None), rpc)


def simulate(payment_id: str, outcome: str) -> Request:
    value = account_pb2.SimulatedOutcome.Value(f"SIMULATED_OUTCOME_{outcome.upper()}")
    message = account_pb2.SimulatePaymentRequest(payment_id=payment_id, outcome=value)
    rpc = (f"/{ADMIN}/SimulatePayment", message, payment_pb2.GetPaymentStatusResponse)
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    return Request((path, {"outcome": outcome}), rpc)


def refund(payment_id: str) -> Request:
    message = refund_pb2.CreateRefundRequest(payment_id=payment_id)
    rpc = (f"/{MERCHANT}/CreateRefund", message, refund_pb2.CreateRefundResponse)
    return Request(("/v1/refunds", {"paymentId": payment_id}), rpc)


def merchant(name: str, email: str) -> Request:
    message = account_pb2.CreateMerchantRequest(merchant_name=name, merchant_email=email)
    rpc = (f"/{ADMIN}/CreateMerchant", message, account_pb2.CreateMerchantResponse)
    return Request(("/v1/merchants", {"merchantName": name, "merchantEmail": email}), rpc)


def settle(merchant_id: str, digit: int) -> Request:
    settlement = {"asset": ASSET, "destination": f"eip155:8453:0x{digit:040x}"}
    message = account_pb2.CreateCryptoSettlementsRequest(
        merchant_id=merchant_id, settlements=[settlement]
    )
    rpc = (
        f"/{ADMIN}/CreateCryptoSettlements",
        message,
        account_pb2.CreateCryptoSettlementsResponse,
    )
    path = f"/v1/merchants/{merchant_id}/settlements/crypto"
    return Request((path, {"settlements": [settlement]}), rpc)


async def _create_payment(ask: Ask, key: str, version: int = 0) -> str:
    created = await ask(create(f"{key}/{version}", 500 + version), f"{key}/{version}")
    payment_id: str = created["paymentId"]
    return payment_id


async def _build_creation(_ask: Ask, key: str, version: int) -> Request:
    return create(key, 1000 + version)


async def _build_creation_after_refusals(_ask: Ask, key: str, version: int) -> Request:
    """Only one version can succeed, so nothing else can conflict with it."""
    return create(key, 1000, expires_at=1 if version else None)


async def _build_cancellation(ask: Ask, key: str, version: int) -> Request:
    return cancel(await _create_payment(ask, key, version))


async def _build_simulation(ask: Ask, key: str, version: int) -> Request:
    return simulate(await _create_payment(ask, key), "failed" if version else "succeeded")


async def _build_refund(ask: Ask, key: str, version: int) -> Request:
    payment_id = await _create_payment(ask, key, version)
    await ask(simulate(payment_id, "succeeded"), f"{key}/{version}/paid")
    return refund(payment_id)


async def _build_merchant(_ask: Ask, key: str, version: int) -> Request:
    return merchant(key, f"{version}@race.example")


async def _build_settlement(ask: Ask, key: str, version: int) -> Request:
    created = await ask(merchant(f"{key}/m", "m@race.example"), f"{key}/m")
    return settle(created["merchant"]["id"], 1 + version)


# clients repeat creations most, so `_build_creation` is listed twice on purpose
KINDS: tuple[Callable[[Ask, str, int], Awaitable[Request]], ...] = (
    _build_creation,
    _build_creation,
    _build_creation_after_refusals,
    _build_cancellation,
    _build_simulation,
    _build_refund,
    _build_merchant,
    _build_settlement,
)


async def build_request(ask: Ask, key: int, version: int) -> Request:
    """Return one version of a key's request."""
    return await KINDS[key % len(KINDS)](ask, f"key-{key}", version)
