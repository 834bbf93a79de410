"""A small payment service behind the gateway, in process or over a channel, and a raw client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
from florin.v1 import (
    gateway_pb2,
    gateway_pb2_grpc,
    listing_pb2,
    merchant_pb2,
    merchant_pb2_grpc,
    payment_pb2,
)
from florin_server.web.headers import GATEWAY_SETTINGS
from google.rpc import error_details_pb2, status_pb2
from grpc_rest_gateway import (
    GatewaySettings,
    HttpServer,
    LocalBackend,
    RemoteBackend,
    RestGateway,
    ServerSettings,
)
from grpc_rest_gateway.jsoncodec import JsonCodec

from tests.support.raw_http import RawResponse, parse_response

FINAL = {
    payment_pb2.PAYMENT_STATUS_SUCCEEDED,
    payment_pb2.PAYMENT_STATUS_FAILED,
    payment_pb2.PAYMENT_STATUS_EXPIRED,
    payment_pb2.PAYMENT_STATUS_CANCELLED,
}
KEY = {"Api-Key": "secret"}
# compiled once, for all tests
_CODECS = {ignored: JsonCodec(ignore_unknown=ignored) for ignored in (False, True)}
SERVICES = [
    gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"],
    merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
]


async def abort_call(context: Any, code: grpc.StatusCode, http: int, name: str, **details: str):
    """Abort as the real service does: ErrorInfo, and RetryInfo where a delay is given."""
    pause = details.pop("pause_s", "")
    status = status_pb2.Status(code=code.value[0], message=name.replace("_", " ").capitalize())
    info = error_details_pb2.ErrorInfo(reason=name.upper(), domain="florin")
    info.metadata.update({"code": name, "http_status": str(http), **details})
    status.details.add().Pack(info)
    if pause:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(float(pause) * 1000))
        status.details.add().Pack(retry)
    packed = ("grpc-status-details-bin", status.SerializeToString())
    await context.abort(code, status.message, (packed, ("pay-version", "2026-02-18")))


class StubPaymentService(
    gateway_pb2_grpc.GatewayServiceServicer, merchant_pb2_grpc.MerchantServiceServicer
):
    """Creates payments on first request. Ids that begin with `no` are unknown."""

    def __init__(self) -> None:
        self.states: dict[str, tuple[int, int]] = {}
        self.watchers: dict[str, set[asyncio.Queue[tuple[int, int]]]] = {}
        self.watching = asyncio.Condition()
        self.seen: list[tuple[str, Any, dict[str, Any]]] = []
        self.calls: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.confirmed = asyncio.Event()
        self.cancelled = asyncio.Event()

    def note(self, name: str, request: Any, context: Any) -> None:
        self.calls[name] += 1
        self.seen.append((name, request, dict(context.invocation_metadata())))

    def state(self, payment_id: str) -> tuple[int, int]:
        return self.states.get(payment_id, (0, payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION))

    def move(self, payment_id: str, status: int) -> None:
        version, _ = self.state(payment_id)
        self.states[payment_id] = (version + 1, status)
        for queue in self.watchers.get(payment_id, ()):
            queue.put_nowait(self.states[payment_id])

    async def wait_watched(self, payment_id: str, count: int = 1) -> None:
        """Wait until exactly so many streams watch a payment."""
        async with asyncio.timeout(5), self.watching:
            await self.watching.wait_for(lambda: len(self.watchers.get(payment_id, ())) == count)

    def status(self, payment_id: str) -> payment_pb2.GetPaymentStatusResponse:
        _, status = self.state(payment_id)
        answer = payment_pb2.GetPaymentStatusResponse(status=status, is_final=status in FINAL)
        if not answer.is_final:
            answer.poll_in_ms = 1000
        return answer

    async def require_payment(self, payment_id: str, context: Any) -> None:
        if payment_id.startswith("no"):
            await abort_call(context, grpc.StatusCode.NOT_FOUND, 404, "payment_not_found")

    async def GetPaymentStatus(self, request, context):
        self.note("GetPaymentStatus", request, context)
        await self.require_payment(request.payment_id, context)
        if request.payment_id == "slow":
            self.entered.set()
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if request.payment_id == "broken":
            raise LookupError("a secret of ours")
        if request.payment_id == "bare":
            await context.abort(grpc.StatusCode.NOT_FOUND, "a sentence of ours")
        if request.payment_id == "down":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "a sentence of ours")
        if request.payment_id == "busy":
            await abort_call(
                context, grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "rate_limited", pause_s="1.2"
            )
        if request.payment_id == "banned":
            await abort_call(
                context, grpc.StatusCode.PERMISSION_DENIED, 451, "sanctioned_user", index="3"
            )
        context.set_trailing_metadata((("pay-version", "2026-02-18"), ("internal", "x")))
        return self.status(request.payment_id)

    async def WatchPayment(self, request, context):
        self.note("WatchPayment", request, context)
        await self.require_payment(request.payment_id, context)
        # at both ends, as the real service does
        version = (("pay-version", "2026-02-18"),)
        await context.send_initial_metadata(version)
        context.set_trailing_metadata(version)
        after = request.after_version if request.HasField("after_version") else -1
        queue: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.watchers.setdefault(request.payment_id, set()).add(queue)
        await self._tell()
        try:
            version, status = self.state(request.payment_id)
            while True:
                if version > after:
                    yield payment_pb2.WatchPaymentResponse(
                        payment=self.status(request.payment_id), version=version
                    )
                if status in FINAL:
                    return
                version, status = await queue.get()
                if status == payment_pb2.PAYMENT_STATUS_UNSPECIFIED:
                    raise LookupError("the feed broke")
        finally:
            self.watchers[request.payment_id].discard(queue)
            await self._tell()

    async def _tell(self) -> None:
        async with self.watching:
            self.watching.notify_all()

    async def ConfirmPayment(self, request, context):
        self.note("ConfirmPayment", request, context)
        self.entered.set()
        if request.option_id == "slow":
            await self.gate.wait()
        self.move(request.payment_id, payment_pb2.PAYMENT_STATUS_PROCESSING)
        self.confirmed.set()
        context.set_trailing_metadata((("pay-version", "2026-02-18"),))
        return self.status(request.payment_id)

    async def GetPaymentOptions(self, request, context):
        self.note("GetPaymentOptions", request, context)
        answer = gateway_pb2.GetPaymentOptionsResponse(payment_id=request.payment_id)
        option = answer.options.add(id="one", account="a", eta_s=5)
        call = option.actions.add().wallet_rpc
        call.chain_id, call.method, call.params_json = "eip155:1", "sign", '["0x1",{"a":1}]'
        return answer

    async def FetchAction(self, request, context):
        self.note("FetchAction", request, context)
        return gateway_pb2.FetchActionResponse()

    async def CancelPayment(self, request, context):
        self.note("CancelPayment", request, context)
        self.move(request.payment_id, payment_pb2.PAYMENT_STATUS_CANCELLED)
        return payment_pb2.CancelPaymentResponse(payment_id=request.payment_id)

    async def CreatePayment(self, request, context):
        self.note("CreatePayment", request, context)
        context.set_trailing_metadata(
            (("idempotent-replayed", "true"), ("ratelimit", '"key";r=1;t=1'))
        )
        return merchant_pb2.CreatePaymentResponse(payment_id="pay_1")

    async def ListPaymentsLegacy(self, request, context):
        self.note("ListPaymentsLegacy", request, context)
        if request.merchant_id == "none":
            await abort_call(context, grpc.StatusCode.NOT_FOUND, 404, "merchant_not_found")
        return listing_pb2.ListPaymentsLegacyResponse()

    async def GetPayment(self, request, context):
        self.note("GetPayment", request, context)
        return merchant_pb2.PaymentDetail(payment_id=request.payment_id)


class FaultInterceptor(grpc.aio.ServerInterceptor):
    """Accepts any api-key, then refuses what the gateway marked as faulty."""

    async def intercept_service(self, continuation, handler_call_details):
        handler = await continuation(handler_call_details)
        metadata = dict(handler_call_details.invocation_metadata)
        if "api-key" in metadata and "gateway-fault-bin" not in metadata:
            return handler

        async def abort(request, context):
            if "api-key" not in metadata:
                code = grpc.StatusCode.UNAUTHENTICATED
                await abort_call(context, code, 401, "missing_auth_headers")
            fault = metadata["gateway-fault-bin"]
            status = status_pb2.Status.FromString(fault)
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                status.message,
                (("grpc-status-details-bin", fault), ("pay-version", "2026-02-18")),
            )

        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(abort, **_get_serializers(handler))
        return grpc.unary_unary_rpc_method_handler(abort, **_get_serializers(handler))


def _get_serializers(handler) -> dict[str, Any]:
    return {
        "request_deserializer": handler.request_deserializer,
        "response_serializer": handler.response_serializer,
    }


@dataclass
class GatewayHarness:
    service: StubPaymentService
    gateway: RestGateway
    server: HttpServer
    open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self.open.append(writer)
        return reader, writer

    async def send(
        self, method: str, target: str, body: bytes | None = None, headers: Any = KEY
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request and leave the connection to the caller."""
        reader, writer = await self.connect()
        lines = [f"{method} {target} HTTP/1.1", "Host: lab", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        return reader, writer

    async def call(
        self, method: str, target: str, body: Any = None, headers: Any = KEY
    ) -> RawResponse:
        """Send a request, body as JSON unless it is bytes, and read the whole answer."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        reader, writer = await self.send(method, target, raw, headers)
        async with asyncio.timeout(5):
            answer = parse_response(await reader.read())
        writer.close()
        return answer


@asynccontextmanager
async def open_gateway(
    kind: str,
    settings: GatewaySettings | None = None,
    server_settings: ServerSettings | None = None,
    sock: socket.socket | None = None,
) -> AsyncIterator[GatewayHarness]:
    """Open the service, reached in process ("local") or over a channel ("remote")."""
    service = StubPaymentService()
    async with AsyncExitStack() as stack:
        backend: LocalBackend | RemoteBackend
        if kind == "local":
            backend = LocalBackend([FaultInterceptor()])
            register_service(service, backend)
        else:
            grpc_server = grpc.aio.server(interceptors=[FaultInterceptor()])
            register_service(service, grpc_server)
            port = grpc_server.add_insecure_port("127.0.0.1:0")
            await grpc_server.start()
            stack.push_async_callback(grpc_server.stop, 0)
            backend = RemoteBackend(f"127.0.0.1:{port}")
        stack.push_async_callback(backend.close)
        settings = replace(
            settings or GatewaySettings(),
            headers=GATEWAY_SETTINGS.headers,
            stream_event=GATEWAY_SETTINGS.stream_event,
            map_codes=GATEWAY_SETTINGS.map_codes,
            defer_faults=GATEWAY_SETTINGS.defer_faults,
        )
        codec = _CODECS[settings.ignore_unknown]
        gateway = RestGateway(backend, SERVICES, settings, codec=codec)
        server = HttpServer(gateway, server_settings, sock=sock)
        await server.start()
        stack.push_async_callback(server.stop)
        running = GatewayHarness(service, gateway, server)
        yield running
        service.gate.set()
        for writer in running.open:
            writer.close()


def register_service(service: StubPaymentService, server: Any) -> None:
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(service, server)
    merchant_pb2_grpc.add_MerchantServiceServicer_to_server(service, server)
