"""The operator's listener: it requires the operator's token, and has no other services."""

from __future__ import annotations

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2
from florin_server.api.server.auth import Authenticator
from florin_server.api.server.guarded_methods import GuardedMethods
from florin_server.api.server.idempotency import IdempotencyLocks
from florin_server.api.server.interceptors import AuthInterceptor
from florin_server.app.servers.grpc_server import OPERATOR_SERVICES, PUBLIC_SERVICES
from google.protobuf.message_factory import GetMessageClass

from tests.support.api import to_api_call_error

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATORS = [method for service in OPERATOR_SERVICES for method in service.methods]
OTHERS = [method for service in PUBLIC_SERVICES for method in service.methods]


async def refusal(channel, method, *metadata, service: str | None = None) -> grpc.aio.AioRpcError:
    """Return the refusal of an empty request; `service` replaces the method's own."""
    path = f"/{service or method.containing_service.full_name}/{method.name}"
    kind = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = kind(
        path,
        request_serializer=lambda request: request.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )(GetMessageClass(method.input_type)(), metadata=metadata, timeout=10)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if method.server_streaming else call)
    return caught.value


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listener(desk):
    async with grpc.aio.insecure_channel(desk.service.grpc.operator_target) as channel:
        yield channel


@pytest.fixture
def token(desk) -> tuple[str, str]:
    return "authorization", f"Bearer {desk.service.secrets.operator_token}"


async def test_no_rpc_of_the_operator_is_answered_without_its_token(desk, listener, token):
    assert len(OPERATORS) > 20
    name, right = token
    key = ("api-key", desk.env["FLORIN_PARTNER_KEY"])
    wrong = [(), (key,), ((name, ""),), ((name, right[7:]),), ((name, right[:-1]),)]
    for method in OPERATORS:
        for metadata in wrong:
            error = await refusal(listener, method, *metadata)
            api_call_error = to_api_call_error(error)
            assert (api_call_error.http, api_call_error.code) == (401, "unauthorized"), method.name
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_no_rpc_of_the_operator_is_answered_elsewhere(desk, token):
    # partners have RPCs of these names for what is theirs, and need their own credentials
    (admin,) = [service for service in PUBLIC_SERVICES if service.name == "AdminService"]
    for method in OPERATORS:
        for service in (None, admin.full_name):
            error = await refusal(desk.channel, method, token, service=service)
            own = service is not None and method.name in admin.methods_by_name
            expected = grpc.StatusCode.UNAUTHENTICATED if own else grpc.StatusCode.UNIMPLEMENTED
            assert error.code() is expected, method.name


async def test_no_rpc_of_partners_and_wallets_is_answered_to_the_operator(desk, listener, token):
    key = ("api-key", desk.env["FLORIN_PARTNER_KEY"])
    merchant = ("merchant-id", desk.env["FLORIN_MERCHANT_ID"])
    for method in OTHERS:
        error = await refusal(listener, method, token, key, merchant)
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED, method.name
    # they are, on their own listener
    get = merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"].methods_by_name["GetPayment"]
    error = await refusal(desk.channel, get, key, merchant)
    assert to_api_call_error(error).code == "payment_not_found"


async def test_service_without_access_rules_is_unimplemented(desk, token):
    app, stored = desk.service.app, desk.service.secrets
    auth = Authenticator(app, stored.pepper, stored.operator_token)
    server = grpc.aio.server()
    guarded = GuardedMethods(AuthInterceptor(app, auth, OPERATOR_SERVICES, IdempotencyLocks(app)))
    # by mistake
    desk.service.grpc.register(guarded)
    server.add_generic_rpc_handlers((guarded,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in OTHERS:
            error = await refusal(channel, method, token)
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED, method.name
    await server.stop(None)
