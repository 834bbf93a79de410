"""The operator is answered on its own listener, with its token, and nobody else is there."""

from __future__ import annotations

import grpc
import pytest
import pytest_asyncio
from florin.v1 import access_pb2, merchant_pb2
from florin_server.boot.grpc_server import PUBLIC
from google.protobuf.message_factory import GetMessageClass

from tests.support.api import refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

RPCS = [method for service in PUBLIC for method in service.methods]


def is_operators(method) -> bool:
    rule = method.GetOptions().Extensions[access_pb2.access]
    return bool(rule.family == access_pb2.CALLER_FAMILY_OPERATOR)


OPERATORS = [method for method in RPCS if is_operators(method)]
OTHERS = [method for method in RPCS if not is_operators(method)]


async def refusal(channel, method, *metadata) -> grpc.aio.AioRpcError:
    """What an empty request is refused with."""
    path = f"/{method.containing_service.full_name}/{method.name}"
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
            told = refused(error)
            assert (told.http, told.code) == (401, "unauthorized"), method.name
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_no_rpc_of_the_operator_is_answered_elsewhere(desk, token):
    for method in OPERATORS:
        error = await refusal(desk.channel, method, token)
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED, method.name


async def test_no_rpc_of_partners_and_wallets_is_answered_to_the_operator(desk, listener, token):
    key = ("api-key", desk.env["FLORIN_PARTNER_KEY"])
    merchant = ("merchant-id", desk.env["FLORIN_MERCHANT_ID"])
    for method in OTHERS:
        error = await refusal(listener, method, token, key, merchant)
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED, method.name
    # they are, where they belong
    get = merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"].methods_by_name["GetPayment"]
    error = await refusal(desk.channel, get, key, merchant)
    assert refused(error).code == "payment_not_found"
