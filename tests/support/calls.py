"""Every RPC and every route, read from the descriptors, with a valid request for each.

A new RPC without an entry here fails the tests that walk all of them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from florin.v1 import access_pb2
from florin_server.accounts.store import destinations
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import Destination
from gateway_options.v1 import json_pb2
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile

from tests.support.addresses import DOLLAR
from tests.support.api import grpc_metadata, to_api_call_error
from tests.support.deposit_claims import CLAIM_ACCOUNT, hold_claimable_money
from tests.support.service_harness import ORDER, PartnerTenant, ServiceHarness

_CODEC = JsonCodec()

PASS = (0, "")
PAYMENT = (404, "payment_not_found")
MERCHANT = (404, "merchant_not_found")
DEPLOYED_ONLY = (404, "not_found")
WEBHOOK = (404, "invalid_params")


@dataclass
class CallRequest:
    """Path variables by proto name, and the body as JSON."""

    path: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


RequestFactory = Callable[[ServiceHarness, PartnerTenant], Awaitable[CallRequest]]


@dataclass(frozen=True)
class ValidCall:
    """A valid request, and the refusal for a caller that does not know its resource.

    `fresh` requests succeed only once. `unknown` is None where no resource can be unknown.
    """

    make: RequestFactory
    unknown: tuple[int, str] | None = PAYMENT
    deployed: tuple[int, str] | None = None
    fresh: bool = False

    def foreign(self, *, deployed: bool) -> tuple[int, str]:
        if deployed and self.deployed is not None:
            return self.deployed
        return self.unknown or PASS


def _make_with_body(body: Any = None) -> RequestFactory:
    async def make(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
        return CallRequest({"payment_id": await _create_payment(desk, tenant)}, body)

    return make


async def _create_payment(desk: ServiceHarness, tenant: PartnerTenant) -> str:
    created = await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)
    assert created.status == 201, created.text
    payment_id: str = created.body["paymentId"]
    return payment_id


async def _make_ended_stream(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    """Make a request for the stream of a final payment, which ends after its last state."""
    payment_id = await _create_payment(desk, tenant)
    await desk.ask("POST", f"/v1/payments/{payment_id}/cancel", tenant.headers)
    return CallRequest({"payment_id": payment_id})


async def _make_fetch(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    offer = await desk.offer(tenant=tenant)
    return CallRequest({"payment_id": offer.payment_id}, {"optionId": offer.option_id, "data": ""})


async def _make_confirm(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    offer = await desk.offer(tenant=tenant)
    results = [{"type": "walletRpc", "data": offer.outputs}]
    return CallRequest(
        {"payment_id": offer.payment_id}, {"optionId": offer.option_id, "results": results}
    )


async def _make_paid(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    """Make a request for a receipt: only payments settled on a chain have one."""
    offer = await desk.offer(tenant=tenant)
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    return CallRequest({"payment_id": offer.payment_id})


async def _make_refund(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    payment_id = await _create_payment(desk, tenant)
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    answer = await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
    assert answer.status == 200, answer.text
    return CallRequest({}, {"paymentId": payment_id})


async def _make_refunded_stream(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    """Make a request for the stream of a final refund, which ends after its last state."""
    request = await _make_refund(desk, tenant)
    answer = await desk.ask("POST", "/v1/refunds", tenant.headers, request.body)
    assert answer.status == 200, answer.text
    return CallRequest({"payment_id": request.body["paymentId"]})


def _make_without_path(body: Any = None) -> RequestFactory:
    async def make(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
        return CallRequest({}, body)

    return make


def _make_for_merchant(body: Any = None) -> RequestFactory:
    async def make(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
        return CallRequest({"merchant_id": tenant.merchant.id}, body)

    return make


async def _make_for_new_merchant(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    return CallRequest({"merchant_id": (await desk.merchant(tenant)).id})


async def _make_new_settlement(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    merchant = await desk.merchant(tenant)
    return CallRequest({"merchant_id": merchant.id}, {"settlements": [_make_settlement_body()]})


def _make_settlement_body() -> dict[str, str]:
    return {"asset": "eip155:1/slip44:60", "destination": "eip155:1:0x" + "11" * 20}


def _make_for_settlement(body: Any = None) -> RequestFactory:
    async def make(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
        merchant = await desk.merchant(tenant)
        new = generate_short_id("crypto_", desk.service.app.randbytes)
        pair = _make_settlement_body()
        destination = Destination(new, merchant.id, pair["asset"], pair["destination"])
        await desk.service.app.store.write(destinations.put_destination(destination))
        return CallRequest({"merchant_id": merchant.id, "id": new}, body)

    return make


def _make_for_endpoint(
    body: Any = None, *, url: str = "https://shop.example/hooks"
) -> RequestFactory:
    async def make(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
        # of a merchant of its own, because each merchant can have only a few
        return CallRequest(
            {"id": await _create_endpoint(desk, tenant, (await desk.merchant(tenant)).id, url)},
            body,
        )

    return make


async def _create_endpoint(
    desk: ServiceHarness, tenant: PartnerTenant, merchant_id: str, url: str
) -> str:
    body = {"url": url, "merchantId": merchant_id}
    answer = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, body)
    assert answer.status == 201, answer.text
    endpoint_id: str = answer.body["endpoint"]["id"]
    return endpoint_id


async def _make_new_endpoint(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    merchant = await desk.merchant(tenant)
    return CallRequest({}, {"url": "https://shop.example/new", "merchantId": merchant.id})


async def _make_replay(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    merchant = await desk.merchant(tenant)
    headers = {**tenant.headers, "Merchant-Id": merchant.id}
    created = await desk.ask("POST", "/v1/payments", headers, ORDER)
    endpoint_id = await _create_endpoint(desk, tenant, merchant.id, "https://shop.example/hooks")
    return CallRequest({"id": endpoint_id}, {"paymentId": created.body["paymentId"]})


async def _make_for_note(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    payment_id = await _create_payment(desk, tenant)
    path = f"/v1/payments/{payment_id}/notes"
    note = await desk.ask("POST", path, tenant.headers, {"text": "called"})
    return CallRequest({"payment_id": payment_id, "id": note.body["id"]}, {"deleted": True})


async def _make_claim(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    payment_id = await _create_payment(desk, tenant)
    await hold_claimable_money(desk, payment_id)
    return CallRequest({"payment_id": payment_id}, {"asset": DOLLAR, "account": CLAIM_ACCOUNT})


async def _make_for_claim(desk: ServiceHarness, tenant: PartnerTenant) -> CallRequest:
    request = await _make_claim(desk, tenant)
    payment_id = request.path["payment_id"]
    path = f"/v1/gateway/payment/{payment_id}/claims"
    answer = await desk.ask("POST", path, desk.rest.wallet, request.body)
    assert answer.status == 200, answer.text
    return CallRequest({"payment_id": payment_id, "claim_id": answer.body["claims"][0]["claimId"]})


_DOLLARS = "eip155:31337/erc20:0x1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9"
_NEW_MERCHANT = {"merchantName": "Tea House", "merchantEmail": "tea@house.example"}
_DEST = {"destination": "eip155:1:0x" + "22" * 20}
_M = {"unknown": MERCHANT, "deployed": DEPLOYED_ONLY}

VALID_CALLS: dict[str, ValidCall] = {
    "GatewayService.GetPayment": ValidCall(_make_with_body()),
    "GatewayService.GetPaymentOptions": ValidCall(_make_with_body({"accounts": []})),
    "GatewayService.OpenAddresses": ValidCall(_make_with_body({"assets": [_DOLLARS]})),
    "GatewayService.ClaimDeposit": ValidCall(_make_claim),
    "GatewayService.FetchAction": ValidCall(_make_fetch),
    "GatewayService.ConfirmPayment": ValidCall(_make_confirm, fresh=True),
    "GatewayService.GetPaymentStatus": ValidCall(_make_with_body()),
    "GatewayService.CancelPayment": ValidCall(_make_with_body(), fresh=True),
    "GatewayService.WatchPayment": ValidCall(_make_ended_stream),
    "MerchantService.CreatePayment": ValidCall(_make_without_path(ORDER), unknown=None, fresh=True),
    "MerchantService.GetPayment": ValidCall(_make_with_body()),
    "MerchantService.GetReceipt": ValidCall(_make_paid),
    "MerchantService.ListPaymentEvents": ValidCall(_make_with_body()),
    "MerchantService.GetPaymentStatus": ValidCall(_make_with_body()),
    "MerchantService.WatchPayment": ValidCall(_make_ended_stream),
    "MerchantService.CancelPayment": ValidCall(_make_with_body(), fresh=True),
    "MerchantService.ListPayments": ValidCall(_make_without_path(), unknown=None),
    "MerchantService.ListMerchantPayments": ValidCall(_make_without_path(), unknown=None),
    "MerchantService.ListPaymentsLegacy": ValidCall(_make_for_merchant(), **_M),
    "MerchantService.CreateRefund": ValidCall(_make_refund, PAYMENT, DEPLOYED_ONLY, fresh=True),
    "MerchantService.ListDepositClaims": ValidCall(_make_with_body()),
    "MerchantService.ConfirmDepositClaim": ValidCall(_make_for_claim),
    "MerchantService.RejectDepositClaim": ValidCall(_make_for_claim),
    "MerchantService.WatchRefund": ValidCall(_make_refunded_stream),
    "AdminService.CreateMerchant": ValidCall(
        _make_without_path(_NEW_MERCHANT), unknown=None, fresh=True
    ),
    "AdminService.ListMerchants": ValidCall(_make_without_path(), unknown=None),
    "AdminService.GetMerchant": ValidCall(_make_for_merchant(), **_M),
    "AdminService.UpdateMerchant": ValidCall(
        _make_for_merchant({"merchantName": "Tea Room"}), **_M
    ),
    "AdminService.DeleteMerchant": ValidCall(_make_for_new_merchant, **_M, fresh=True),
    "AdminService.ListSettlements": ValidCall(_make_for_merchant(), **_M),
    "AdminService.CreateCryptoSettlements": ValidCall(_make_new_settlement, **_M, fresh=True),
    "AdminService.UpdateCryptoSettlement": ValidCall(_make_for_settlement(_DEST), **_M),
    "AdminService.DeleteCryptoSettlement": ValidCall(_make_for_settlement(), **_M, fresh=True),
    "AdminService.SimulatePayment": ValidCall(
        _make_with_body({"outcome": "succeeded"}), fresh=True
    ),
    "AdminService.GetTestClock": ValidCall(_make_without_path(), unknown=None),
    "AdminService.AdvanceTestClock": ValidCall(
        _make_without_path({"seconds": 1}), unknown=None, fresh=True
    ),
    "AdminService.ListAuditEntries": ValidCall(_make_without_path(), unknown=None),
    "AdminService.CreatePaymentNote": ValidCall(_make_with_body({"text": "called"})),
    "AdminService.ListPaymentNotes": ValidCall(_make_with_body()),
    "AdminService.UpdatePaymentNote": ValidCall(_make_for_note),
    "WebhookService.CreateWebhookEndpoint": ValidCall(_make_new_endpoint, MERCHANT, fresh=True),
    "WebhookService.ListWebhookEndpoints": ValidCall(_make_without_path(), unknown=None),
    "WebhookService.GetWebhookEndpoint": ValidCall(_make_for_endpoint(), WEBHOOK),
    "WebhookService.UpdateWebhookEndpoint": ValidCall(
        _make_for_endpoint({"description": "new"}), WEBHOOK
    ),
    "WebhookService.DeleteWebhookEndpoint": ValidCall(_make_for_endpoint(), WEBHOOK, fresh=True),
    "WebhookService.RotateWebhookSecret": ValidCall(_make_for_endpoint({}), WEBHOOK, fresh=True),
    "WebhookService.ListWebhookAttempts": ValidCall(_make_for_endpoint(), WEBHOOK),
    "WebhookService.ReplayWebhook": ValidCall(_make_replay, WEBHOOK),
    "WebhookService.ReplayWebhooksSince": ValidCall(
        _make_for_endpoint({"since": "2026-01-01T00:00:00Z"}), WEBHOOK
    ),
    "WebhookService.TakeWebhooks": ValidCall(_make_for_endpoint({}, url=""), WEBHOOK),
}


@dataclass(frozen=True)
class PublicCall:
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
    def good(self) -> ValidCall:
        return VALID_CALLS[self.name]

    async def outcome(
        self, desk: ServiceHarness, request: CallRequest, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        """Return HTTP status and code of a refusal, or PASS."""
        if self.verb:
            return await self._rest(desk, request, headers)
        return await self._grpc(desk.channel, request, headers)

    async def _rest(
        self, desk: ServiceHarness, request: CallRequest, headers: Mapping[str, str]
    ) -> Any:
        path = self.template
        for name, value in request.path.items():
            path = path.replace(f"{{{name}}}", value)
        answer = await desk.ask(self.verb, path, headers, request.body)
        success = self.method.GetOptions().Extensions[json_pb2.rest].success_status or 200
        return PASS if answer.status == success else answer.refusal

    async def _grpc(
        self, channel: grpc.aio.Channel, request: CallRequest, headers: Mapping[str, str]
    ) -> Any:
        return await self.send(channel, self.message(request), headers)

    async def send(
        self, channel: grpc.aio.Channel, message: Message, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        """Send a message over gRPC; return HTTP status and code of a refusal, or PASS."""
        metadata = grpc_metadata(headers)
        name = f"/{self.method.containing_service.full_name}/{self.method.name}"
        kinds = (message.SerializeToString, _pass_bytes)
        try:
            if self.method.server_streaming:
                stream: Any = channel.unary_stream(name, lambda _: kinds[0](), _pass_bytes)
                async for _ in stream(None, metadata=metadata, timeout=20):
                    pass
            else:
                unary: Any = channel.unary_unary(name, lambda _: kinds[0](), _pass_bytes)
                await unary(None, metadata=metadata, timeout=20)
        except grpc.aio.AioRpcError as error:
            api_call_error = to_api_call_error(error)
            return api_call_error.http, api_call_error.code
        return PASS

    def message(self, request: CallRequest) -> Message:
        """Return the request as the message that REST makes of it."""
        message = GetMessageClass(self.method.input_type)()
        decode = _CODEC.get_decoder(self.method.input_type, JsonProfile.SPEC)
        issues = decode(json.loads(json.dumps(request.body or {})), message)
        assert not issues, issues
        for name, value in request.path.items():
            setattr(message, name, value)
        return message


def _pass_bytes(data: bytes) -> bytes:
    return data


def list_public_calls() -> Iterator[PublicCall]:
    """Yield all RPCs of the public listener, and all routes."""
    for service in PUBLIC_SERVICES:
        for method in service.methods:
            yield PublicCall(method)
            options = method.GetOptions()
            if not options.HasExtension(annotations_pb2.http):
                continue
            rule = options.Extensions[annotations_pb2.http]
            for item in (rule, *rule.additional_bindings):
                verb = str(item.WhichOneof("pattern"))
                yield PublicCall(method, verb.upper(), getattr(item, verb))
