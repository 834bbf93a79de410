"""One set of calls over REST and over gRPC, so that a test can run with both."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import aiohttp
import grpc
from florin.v1 import (
    account_pb2,
    admin_pb2_grpc,
    gateway_pb2,
    gateway_pb2_grpc,
    merchant_pb2,
    merchant_pb2_grpc,
    payment_pb2,
    refund_pb2,
)
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.support.json import to_json

Json = dict[str, Any]


class ApiCallError(Exception):
    """An error answer."""

    def __init__(self, http: int, body: Json) -> None:
        self.http = http
        self.code = body["code"]
        self.message = body["message"]
        self.details = body.get("details", {})
        self.issues = body.get("issues", [])
        super().__init__(f"{http} {body}")


class PaymentApi(Protocol):
    async def create(self, body: Json, key: str | None = None) -> Json: ...
    async def detail(self, payment_id: str) -> Json: ...
    async def merchant_status(self, payment_id: str) -> Json: ...
    async def merchant_cancel(self, payment_id: str) -> Json: ...
    async def refund(
        self, payment_id: str, key: str | None = None, amount: Any = None, reason: Any = None
    ) -> Json: ...
    async def simulate(self, payment_id: str, outcome: str, key: str | None = None) -> Json: ...
    async def info(self, payment_id: str) -> Json: ...
    async def options(self, payment_id: str, accounts: list[str]) -> Json: ...
    async def fetch(
        self, payment_id: str, option_id: str, data: str = "", collected: Any = None
    ) -> Json: ...
    async def confirm(
        self, payment_id: str, option_id: str, outputs: list[Any], collected: Any = None
    ) -> Json: ...
    async def status(self, payment_id: str) -> Json: ...
    async def cancel(self, payment_id: str) -> Json: ...
    def watch(self, payment_id: str, after: int | None = None) -> AsyncIterator[Json]: ...


def grpc_metadata(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return headers as gRPC metadata."""
    return tuple((name.lower(), value) for name, value in headers.items())


def _to_collected_data(data: Any) -> Json:
    return {} if data is None else {"collectedData": data}


class RestApi:
    def __init__(self, session: aiohttp.ClientSession, base: str, env: dict[str, str]) -> None:
        self._session = session
        self.base = base
        self.merchant = {
            "Api-Key": env["FLORIN_PARTNER_KEY"],
            "Merchant-Id": env["FLORIN_MERCHANT_ID"],
        }
        self.wallet = {"App-Id": env["FLORIN_APP_ID"], "Client-Id": env["FLORIN_CLIENT_ID"]}

    async def call(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Json:
        async with self._session.request(
            method, self.base + path, json=body, headers=headers
        ) as answer:
            content = await answer.json()
            if answer.status >= 400:
                raise ApiCallError(answer.status, content)
            return content

    def _keyed(self, key: str | None) -> dict[str, str]:
        return self.merchant if key is None else {**self.merchant, "Idempotency-Key": key}

    async def create(self, body: Json, key: str | None = None) -> Json:
        return await self.call("POST", "/v1/payments", self._keyed(key), body)

    async def detail(self, payment_id: str) -> Json:
        return await self.call("GET", f"/v1/payments/{payment_id}", self.merchant)

    async def merchant_status(self, payment_id: str) -> Json:
        return await self.call("GET", f"/v1/payments/{payment_id}/status", self.merchant)

    async def merchant_cancel(self, payment_id: str) -> Json:
        return await self.call("POST", f"/v1/payments/{payment_id}/cancel", self.merchant)

    async def refund(
        self, payment_id: str, key: str | None = None, amount: Any = None, reason: Any = None
    ) -> Json:
        body = {"paymentId": payment_id, "amount": amount, "reason": reason}
        body = {name: value for name, value in body.items() if value is not None}
        return await self.call("POST", "/v1/refunds", self._keyed(key), body)

    async def simulate(self, payment_id: str, outcome: str, key: str | None = None) -> Json:
        path = f"/v1/sandbox/payments/{payment_id}/simulate"
        return await self.call("POST", path, self._keyed(key), {"outcome": outcome})

    async def info(self, payment_id: str) -> Json:
        return await self.call("GET", f"/v1/gateway/payment/{payment_id}", self.wallet)

    async def options(self, payment_id: str, accounts: list[str]) -> Json:
        path = f"/v1/gateway/payment/{payment_id}/options"
        return await self.call("POST", path, self.wallet, {"accounts": accounts})

    async def fetch(
        self, payment_id: str, option_id: str, data: str = "", collected: Any = None
    ) -> Json:
        path = f"/v1/gateway/payment/{payment_id}/fetch"
        body = {"optionId": option_id, "data": data, **_to_collected_data(collected)}
        return await self.call("POST", path, self.wallet, body)

    async def confirm(
        self, payment_id: str, option_id: str, outputs: list[Any], collected: Any = None
    ) -> Json:
        results = [{"type": "walletRpc", "data": [output]} for output in outputs]
        path = f"/v1/gateway/payment/{payment_id}/confirm"
        body = {"optionId": option_id, "results": results, **_to_collected_data(collected)}
        return await self.call("POST", path, self.wallet, body)

    async def status(self, payment_id: str) -> Json:
        return await self.call("GET", f"/v1/gateway/payment/{payment_id}/status", self.wallet)

    async def cancel(self, payment_id: str) -> Json:
        return await self.call("POST", f"/v1/gateway/payment/{payment_id}/cancel", self.wallet)

    async def watch(self, payment_id: str, after: int | None = None) -> AsyncIterator[Json]:
        headers = dict(self.wallet)
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        url = f"{self.base}/v1/gateway/payment/{payment_id}/events"
        async with self._session.get(url, headers=headers) as stream:
            if stream.status >= 400:
                raise ApiCallError(stream.status, await stream.json())
            async for line in stream.content:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])


class GrpcApi:
    def __init__(self, channel: grpc.aio.Channel, env: dict[str, str]) -> None:
        self.gateway = gateway_pb2_grpc.GatewayServiceStub(channel)
        self._merchant = merchant_pb2_grpc.MerchantServiceStub(channel)
        self._admin = admin_pb2_grpc.AdminServiceStub(channel)
        self.merchant = (
            ("api-key", env["FLORIN_PARTNER_KEY"]),
            ("merchant-id", env["FLORIN_MERCHANT_ID"]),
        )
        self.wallet = (("app-id", env["FLORIN_APP_ID"]), ("client-id", env["FLORIN_CLIENT_ID"]))

    def _keyed(self, key: str | None) -> tuple[tuple[str, str], ...]:
        return self.merchant if key is None else (*self.merchant, ("idempotency-key", key))

    async def ask(self, call: Any, request: Any, metadata: Any) -> Json:
        try:
            return to_json(await call(request, metadata=metadata, timeout=120))
        except grpc.aio.AioRpcError as error:
            raise to_api_call_error(error) from error

    async def create(self, body: Json, key: str | None = None) -> Json:
        request = merchant_pb2.CreatePaymentRequest(
            amount=body["amount"],
            reference_id=body.get("referenceId"),
            expires_at=body.get("expiresAt"),
            checkout={
                "success_url": body["checkout"]["successUrl"],
                "error_url": body["checkout"]["errorUrl"],
            }
            if "checkout" in body
            else None,
        )
        return await self.ask(self._merchant.CreatePayment, request, self._keyed(key))

    async def detail(self, payment_id: str) -> Json:
        request = payment_pb2.GetPaymentRequest(payment_id=payment_id)
        return await self.ask(self._merchant.GetPayment, request, self.merchant)

    async def merchant_status(self, payment_id: str) -> Json:
        request = payment_pb2.GetPaymentStatusRequest(payment_id=payment_id)
        return await self.ask(self._merchant.GetPaymentStatus, request, self.merchant)

    async def merchant_cancel(self, payment_id: str) -> Json:
        request = payment_pb2.CancelPaymentRequest(payment_id=payment_id)
        return await self.ask(self._merchant.CancelPayment, request, self.merchant)

    async def refund(
        self, payment_id: str, key: str | None = None, amount: Any = None, reason: Any = None
    ) -> Json:
        request = refund_pb2.CreateRefundRequest(payment_id=payment_id, reason=reason)
        if amount is not None:
            request.amount.CopyFrom(refund_pb2.RefundAmount(**amount))
        return await self.ask(self._merchant.CreateRefund, request, self._keyed(key))

    async def simulate(self, payment_id: str, outcome: str, key: str | None = None) -> Json:
        request = account_pb2.SimulatePaymentRequest(
            payment_id=payment_id,
            outcome=account_pb2.SimulatedOutcome.Value(f"SIMULATED_OUTCOME_{outcome.upper()}"),
        )
        return await self.ask(self._admin.SimulatePayment, request, self._keyed(key))

    async def info(self, payment_id: str) -> Json:
        request = payment_pb2.GetPaymentRequest(payment_id=payment_id)
        return await self.ask(self.gateway.GetPayment, request, self.wallet)

    async def options(self, payment_id: str, accounts: list[str]) -> Json:
        request = gateway_pb2.GetPaymentOptionsRequest(payment_id=payment_id, accounts=accounts)
        return await self.ask(self.gateway.GetPaymentOptions, request, self.wallet)

    async def fetch(
        self, payment_id: str, option_id: str, data: str = "", collected: Any = None
    ) -> Json:
        request = gateway_pb2.FetchActionRequest(
            payment_id=payment_id,
            option_id=option_id,
            data=data,
            collected_data_json=None if collected is None else json.dumps(collected),
        )
        return await self.ask(self.gateway.FetchAction, request, self.wallet)

    async def confirm(
        self, payment_id: str, option_id: str, outputs: list[Any], collected: Any = None
    ) -> Json:
        results = [
            gateway_pb2.ActionResult(
                type=gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC, output_json=[json.dumps(output)]
            )
            for output in outputs
        ]
        request = gateway_pb2.ConfirmPaymentRequest(
            payment_id=payment_id,
            option_id=option_id,
            results=results,
            collected_data_json=None if collected is None else json.dumps(collected),
        )
        return await self.ask(self.gateway.ConfirmPayment, request, self.wallet)

    async def status(self, payment_id: str) -> Json:
        request = payment_pb2.GetPaymentStatusRequest(payment_id=payment_id)
        return await self.ask(self.gateway.GetPaymentStatus, request, self.wallet)

    async def cancel(self, payment_id: str) -> Json:
        request = payment_pb2.CancelPaymentRequest(payment_id=payment_id)
        return await self.ask(self.gateway.CancelPayment, request, self.wallet)

    async def watch(self, payment_id: str, after: int | None = None) -> AsyncIterator[Json]:
        request = payment_pb2.WatchPaymentRequest(payment_id=payment_id, after_version=after)
        call = self.gateway.WatchPayment(request, metadata=self.wallet)
        try:
            async for update in call:
                yield to_json(update)
        except grpc.aio.AioRpcError as error:
            raise to_api_call_error(error) from error
        finally:
            call.cancel()


def _json_path(path: str) -> str:
    """Return a path of fields in the names that REST has for them."""
    names = (
        re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), text) for text in path.split(".")
    )
    return ".".join(names).replace("outputJson", "data")


def to_api_call_error(error: grpc.aio.AioRpcError) -> ApiCallError:
    """Return the REST body of the error."""
    status = rpc_status.from_call(error)
    assert status is not None, error
    body: Json = {"message": status.message, "code": "", "details": {}, "issues": []}
    http = 0
    for detail in status.details:
        info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            facts = dict(info.metadata)
            body["code"], http = facts.pop("code"), int(facts.pop("http_status"))
            assert info.reason == body["code"].upper()
            assert info.domain == "florin"
            body["details"] = facts
        elif detail.Unpack(bad):
            body["issues"] = [
                {"field": _json_path(v.field), "message": v.description}
                for v in bad.field_violations
            ]
    return ApiCallError(http, body)
