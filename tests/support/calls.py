"""Every RPC and every route, found in the descriptors, with a request that is good for it.

A new RPC without an entry here fails the tests that walk all of them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from florin.v1 import access_pb2
from florin_gateway.jsoncodec import Codec
from florin_gateway.profiles import Profile
from florin_server.boot.servers.grpc_server import PUBLIC
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Destination
from florin_server.store.accounts import destinations
from gateway_options.v1 import json_pb2
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.support.api import grpc_metadata, refused
from tests.support.desk import ORDER, Desk, Tenant

_CODEC = Codec()

PASS = (0, "")
PAYMENT = (404, "payment_not_found")
MERCHANT = (404, "merchant_not_found")
DEPLOYED_ONLY = (404, "not_found")
WEBHOOK = (404, "invalid_params")


@dataclass
class Request:
    """Path variables by proto name, and the body as JSON."""

    path: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


Make = Callable[[Desk, Tenant], Awaitable[Request]]


@dataclass(frozen=True)
class Good:
    """How to make a request that succeeds, and what it says to whom its resource is unknown.

    `fresh` requests succeed once only. `unknown` is None where there is nothing to be unknown.
    """

    make: Make
    unknown: tuple[int, str] | None = PAYMENT
    deployed: tuple[int, str] | None = None
    fresh: bool = False

    def foreign(self, *, deployed: bool) -> tuple[int, str]:
        if deployed and self.deployed is not None:
            return self.deployed
        return self.unknown or PASS


def _with(body: Any = None) -> Make:
    async def make(desk: Desk, tenant: Tenant) -> Request:
        return Request({"payment_id": await _payment(desk, tenant)}, body)

    return make


async def _payment(desk: Desk, tenant: Tenant) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    assert created.status == 201, created.text
    payment_id: str = created.body["paymentId"]
    return payment_id


async def _ended(desk: Desk, tenant: Tenant) -> Request:
    """A stream of a final payment ends by itself."""
    payment_id = await _payment(desk, tenant)
    await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers)
    return Request({"payment_id": payment_id})


async def _fetch(desk: Desk, tenant: Tenant) -> Request:
    offer = await desk.offer(tenant=tenant)
    return Request({"payment_id": offer.payment_id}, {"optionId": offer.option_id, "data": ""})


async def _confirm(desk: Desk, tenant: Tenant) -> Request:
    offer = await desk.offer(tenant=tenant)
    results = [{"type": "walletRpc", "data": offer.outputs}]
    return Request(
        {"payment_id": offer.payment_id}, {"optionId": offer.option_id, "results": results}
    )


async def _paid(desk: Desk, tenant: Tenant) -> Request:
    """Only what was paid on a chain has a receipt."""
    offer = await desk.offer(tenant=tenant)
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    return Request({"payment_id": offer.payment_id})


async def _refund(desk: Desk, tenant: Tenant) -> Request:
    payment_id = await _payment(desk, tenant)
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    answer = await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    assert answer.status == 200, answer.text
    return Request({}, {"paymentId": payment_id})


async def _refunded(desk: Desk, tenant: Tenant) -> Request:
    """A stream of a refund that is over ends by itself."""
    request = await _refund(desk, tenant)
    answer = await desk.ask("POST", "/v1/refunds", tenant.headers, request.body)
    assert answer.status == 200, answer.text
    return Request({"payment_id": request.body["paymentId"]})


def _nothing(body: Any = None) -> Make:
    async def make(desk: Desk, tenant: Tenant) -> Request:
        return Request({}, body)

    return make


def _merchant(body: Any = None) -> Make:
    async def make(desk: Desk, tenant: Tenant) -> Request:
        return Request({"merchant_id": tenant.merchant.id}, body)

    return make


async def _another_merchant(desk: Desk, tenant: Tenant) -> Request:
    return Request({"merchant_id": (await desk.merchant(tenant)).id})


async def _new_settlement(desk: Desk, tenant: Tenant) -> Request:
    merchant = await desk.merchant(tenant)
    return Request({"merchant_id": merchant.id}, {"settlements": [_settlement()]})


def _settlement() -> dict[str, str]:
    return {"asset": "eip155:1/slip44:60", "destination": "eip155:1:0x" + "11" * 20}


def _old_settlement(body: Any = None) -> Make:
    async def make(desk: Desk, tenant: Tenant) -> Request:
        merchant = await desk.merchant(tenant)
        new = short_id("crypto_", desk.service.app.randbytes)
        pair = _settlement()
        made = Destination(new, merchant.id, pair["asset"], pair["destination"])
        await desk.service.app.store.write(destinations.put_destination(made))
        return Request({"merchant_id": merchant.id, "id": new}, body)

    return make


def _endpoint(body: Any = None, *, url: str = "https://shop.example/hooks") -> Make:
    async def make(desk: Desk, tenant: Tenant) -> Request:
        # of a merchant of its own: each has few
        return Request(
            {"id": await _hook(desk, tenant, (await desk.merchant(tenant)).id, url)}, body
        )

    return make


async def _hook(desk: Desk, tenant: Tenant, merchant_id: str, url: str) -> str:
    body = {"url": url, "merchantId": merchant_id}
    answer = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    assert answer.status == 201, answer.text
    endpoint_id: str = answer.body["endpoint"]["id"]
    return endpoint_id


async def _new_endpoint(desk: Desk, tenant: Tenant) -> Request:
    merchant = await desk.merchant(tenant)
    return Request({}, {"url": "https://shop.example/new", "merchantId": merchant.id})


async def _replay(desk: Desk, tenant: Tenant) -> Request:
    merchant = await desk.merchant(tenant)
    headers = {**tenant.headers, "Merchant-Id": merchant.id}
    created = await desk.ask("POST", "/v1/payments", headers, ORDER)
    endpoint_id = await _hook(desk, tenant, merchant.id, "https://shop.example/hooks")
    return Request({"id": endpoint_id}, {"paymentId": created.body["paymentId"]})


_NEW_MERCHANT = {"merchantName": "Tea House", "merchantEmail": "tea@house.example"}
_DEST = {"destination": "eip155:1:0x" + "22" * 20}
_M = {"unknown": MERCHANT, "deployed": DEPLOYED_ONLY}

GOOD: dict[str, Good] = {
    "GatewayService.GetPayment": Good(_with()),
    "GatewayService.GetPaymentOptions": Good(_with({"accounts": []})),
    "GatewayService.FetchAction": Good(_fetch),
    "GatewayService.ConfirmPayment": Good(_confirm, fresh=True),
    "GatewayService.GetPaymentStatus": Good(_with()),
    "GatewayService.CancelPayment": Good(_with(), fresh=True),
    "GatewayService.WatchPayment": Good(_ended),
    "MerchantService.CreatePayment": Good(_nothing(ORDER), unknown=None, fresh=True),
    "MerchantService.GetPayment": Good(_with()),
    "MerchantService.GetReceipt": Good(_paid),
    "MerchantService.ListPaymentEvents": Good(_with()),
    "MerchantService.GetPaymentStatus": Good(_with()),
    "MerchantService.WatchPayment": Good(_ended),
    "MerchantService.CancelPayment": Good(_with(), fresh=True),
    "MerchantService.ListPayments": Good(_nothing(), unknown=None),
    "MerchantService.ListMerchantPayments": Good(_nothing(), unknown=None),
    "MerchantService.ListPaymentsLegacy": Good(_merchant(), **_M),
    "MerchantService.CreateRefund": Good(_refund, PAYMENT, DEPLOYED_ONLY, fresh=True),
    "MerchantService.WatchRefund": Good(_refunded),
    "AdminService.CreateMerchant": Good(_nothing(_NEW_MERCHANT), unknown=None, fresh=True),
    "AdminService.ListMerchants": Good(_nothing(), unknown=None),
    "AdminService.GetMerchant": Good(_merchant(), **_M),
    "AdminService.UpdateMerchant": Good(_merchant({"merchantName": "Tea Room"}), **_M),
    "AdminService.DeleteMerchant": Good(_another_merchant, **_M, fresh=True),
    "AdminService.ListSettlements": Good(_merchant(), **_M),
    "AdminService.CreateCryptoSettlements": Good(_new_settlement, **_M, fresh=True),
    "AdminService.UpdateCryptoSettlement": Good(_old_settlement(_DEST), **_M),
    "AdminService.DeleteCryptoSettlement": Good(_old_settlement(), **_M, fresh=True),
    "AdminService.SimulatePayment": Good(_with({"outcome": "succeeded"}), fresh=True),
    "AdminService.GetTestClock": Good(_nothing(), unknown=None),
    "AdminService.AdvanceTestClock": Good(_nothing({"seconds": 1}), unknown=None, fresh=True),
    "WebhookService.CreateWebhookEndpoint": Good(_new_endpoint, MERCHANT, fresh=True),
    "WebhookService.ListWebhookEndpoints": Good(_nothing(), unknown=None),
    "WebhookService.GetWebhookEndpoint": Good(_endpoint(), WEBHOOK),
    "WebhookService.UpdateWebhookEndpoint": Good(_endpoint({"description": "new"}), WEBHOOK),
    "WebhookService.DeleteWebhookEndpoint": Good(_endpoint(), WEBHOOK, fresh=True),
    "WebhookService.RotateWebhookSecret": Good(_endpoint({}), WEBHOOK, fresh=True),
    "WebhookService.ListWebhookAttempts": Good(_endpoint(), WEBHOOK),
    "WebhookService.ReplayWebhook": Good(_replay, WEBHOOK),
    "WebhookService.ReplayWebhooksSince": Good(
        _endpoint({"since": "2026-01-01T00:00:00Z"}), WEBHOOK
    ),
    "WebhookService.TakeWebhooks": Good(_endpoint({}, url=""), WEBHOOK),
}


@dataclass(frozen=True)
class Call:
    """One RPC over gRPC, or one of its routes over REST."""

    method: MethodDescriptor
    verb: str = ""
    template: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.template}" if self.verb else f"gRPC {self.name}"

    @property
    def name(self) -> str:
        return f"{self.method.containing_service.name}.{self.method.name}"

    @property
    def rule(self) -> access_pb2.AccessRule:
        return self.method.GetOptions().Extensions[access_pb2.access]

    @property
    def good(self) -> Good:
        return GOOD[self.name]

    async def outcome(
        self, desk: Desk, request: Request, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        """HTTP status and code of a refusal, or PASS."""
        if self.verb:
            return await self._rest(desk, request, headers)
        return await self._grpc(desk.channel, request, headers)

    async def _rest(self, desk: Desk, request: Request, headers: Mapping[str, str]) -> Any:
        path = self.template
        for name, value in request.path.items():
            path = path.replace(f"{{{name}}}", value)
        answer = await desk.ask(self.verb, path, headers, request.body)
        success = self.method.GetOptions().Extensions[json_pb2.rest].success_status or 200
        return PASS if answer.status == success else answer.told

    async def _grpc(
        self, channel: grpc.aio.Channel, request: Request, headers: Mapping[str, str]
    ) -> Any:
        return await self.send(channel, self.message(request), headers)

    async def send(
        self, channel: grpc.aio.Channel, message: Message, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        """Send a message over gRPC; HTTP status and code of a refusal, or PASS."""
        metadata = grpc_metadata(headers)
        name = f"/{self.method.containing_service.full_name}/{self.method.name}"
        kinds = (message.SerializeToString, _any_bytes)
        try:
            if self.method.server_streaming:
                stream: Any = channel.unary_stream(name, lambda _: kinds[0](), _any_bytes)
                async for _ in stream(None, metadata=metadata, timeout=20):
                    pass
            else:
                unary: Any = channel.unary_unary(name, lambda _: kinds[0](), _any_bytes)
                await unary(None, metadata=metadata, timeout=20)
        except grpc.aio.AioRpcError as error:
            told = refused(error)
            return told.http, told.code
        return PASS

    def message(self, request: Request) -> Message:
        """The request as the message that REST makes of it."""
        made = GetMessageClass(self.method.input_type)()
        decode = _CODEC.decoder(self.method.input_type, Profile.SPEC)
        issues = decode(json.loads(json.dumps(request.body or {})), made)
        assert not issues, issues
        for name, value in request.path.items():
            setattr(made, name, value)
        return made


def _any_bytes(data: bytes) -> bytes:
    return data


def public_calls() -> Iterator[Call]:
    """All RPCs of the public listener, and all routes."""
    for service in PUBLIC:
        for method in service.methods:
            yield Call(method)
            options = method.GetOptions()
            if not options.HasExtension(annotations_pb2.http):
                continue
            rule = options.Extensions[annotations_pb2.http]
            for one in (rule, *rule.additional_bindings):
                verb = str(one.WhichOneof("pattern"))
                yield Call(method, verb.upper(), getattr(one, verb))
