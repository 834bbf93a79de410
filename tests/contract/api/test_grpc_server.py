"""Guarantees for gRPC clients beside the calls themselves."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from florin.v1 import (
    gateway_pb2,
    gateway_pb2_grpc,
    merchant_pb2,
    merchant_pb2_grpc,
    operator_pb2_grpc,
    partner_pb2,
    payment_pb2,
    system_pb2,
)
from florin_server.app.servers.grpc_server import OPERATOR_SERVICES, PUBLIC_SERVICES
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.support.api import GrpcApi, to_api_call_error
from tests.support.service import wait_open_responses

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}


@pytest.fixture
async def channel(env):
    async with grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"]) as opened:
        yield opened


@pytest.fixture
async def operator(service):
    async with grpc.aio.insecure_channel(service.grpc.operator_target) as opened:
        yield operator_pb2_grpc.OperatorServiceStub(opened)


async def test_health_is_reported_for_the_server_and_each_service(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", *(service.full_name for service in PUBLIC_SERVICES)):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


REFLECTION = [f"grpc.reflection.{version}.ServerReflection" for version in ("v1", "v1alpha")]


async def reflected(channel, version: str) -> dict[str, set[str]]:
    """Return the services and their methods by reflection, without the descriptors."""
    ask = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    call = ask()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    names = [s.name for s in (await call.read()).list_services_response.service]
    assert len(names) == len(set(names))
    pool, files = descriptor_pool.DescriptorPool(), {}
    for name in names:
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name))
        for text in (await call.read()).file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(text)
            files[file.name] = file
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    while files:
        ready = [f for f in files.values() if not files.keys() & set(f.dependency)]
        for file in ready:
            pool.Add(files.pop(file.name))
    return {name: {m.name for m in pool.FindServiceByName(name).methods} for name in names}


async def unknown_to_reflection(channel, name: str) -> bool:
    call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name))
    result = (await call.read()).error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return result


def methods_of(*services) -> dict[str, set[str]]:
    return {service.full_name: {method.name for method in service.methods} for service in services}


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_lists_only_the_services_of_its_listener(channel, service, version):
    async with grpc.aio.insecure_channel(service.grpc.operator_target) as operator:
        for listener, services in ((channel, PUBLIC_SERVICES), (operator, OPERATOR_SERVICES)):
            result = await reflected(listener, version)
            assert {result.pop(name) == {"ServerReflectionInfo"} for name in REFLECTION} == {True}
            assert "Check" in result.pop("grpc.health.v1.Health")
            assert result == methods_of(*services)


async def test_health_and_reflection_hide_services_of_the_other_listener(channel, service):
    async with grpc.aio.insecure_channel(service.grpc.operator_target) as operator:
        for listener, services in ((channel, OPERATOR_SERVICES), (operator, PUBLIC_SERVICES)):
            for name in (service_descriptor.full_name for service_descriptor in services):
                request = health_pb2.HealthCheckRequest(service=name)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await health_pb2_grpc.HealthStub(listener).Check(request)
                assert caught.value.code() is grpc.StatusCode.NOT_FOUND
                assert await unknown_to_reflection(listener, name)


async def test_a_message_beyond_a_mebibyte_is_refused(channel, env):
    gateway = gateway_pb2_grpc.GatewayServiceStub(channel)
    request = gateway_pb2.GetPaymentOptionsRequest(payment_id="pay_x", accounts=["x" * 2**20])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await gateway.GetPaymentOptions(request, metadata=GrpcApi(channel, env).wallet)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_operator_is_answered_on_its_own_address_only(channel, operator, service):
    token = (("authorization", f"Bearer {service.secrets.operator_token}"),)
    request = system_pb2.GetSystemStatusRequest()
    status = await operator.GetSystemStatus(request, metadata=token)
    assert [(c.chain_id, c.healthy) for c in status.chains] == [("eip155:31337", True)]
    elsewhere = operator_pb2_grpc.OperatorServiceStub(channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await elsewhere.GetSystemStatus(request, metadata=token)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "metadata", [(), (("authorization", "Bearer wrong"),), (("authorization", ""),)]
)
async def test_the_operator_needs_the_token(operator, metadata):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await operator.ListApiKeys(partner_pb2.ListApiKeysRequest(), metadata=metadata)
    assert to_api_call_error(caught.value).code == "unauthorized"


async def test_api_key_is_created_used_and_revoked(operator, service, channel):
    token = (("authorization", f"Bearer {service.secrets.operator_token}"),)
    key_request = partner_pb2.CreateApiKeyRequest(kind=partner_pb2.API_KEY_KIND_WALLET)
    create_api_key = await operator.CreateApiKey(key_request, metadata=token)
    gateway = gateway_pb2_grpc.GatewayServiceStub(channel)
    request = payment_pb2.GetPaymentStatusRequest(payment_id="pay_unknown")
    key = (("api-key", create_api_key.secret),)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await gateway.GetPaymentStatus(request, metadata=key)
    assert to_api_call_error(caught.value).code == "payment_not_found"
    listed = await operator.ListApiKeys(partner_pb2.ListApiKeysRequest(), metadata=token)
    assert create_api_key.key.key_id in {each_key.key_id for each_key in listed.keys}
    assert create_api_key.secret not in str(listed)
    for _ in range(2):
        revoked = await operator.RevokeApiKey(
            partner_pb2.RevokeApiKeyRequest(key_id=create_api_key.key.key_id), metadata=token
        )
        assert revoked.key.HasField("revoked_at")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await operator.RevokeApiKey(
            partner_pb2.RevokeApiKeyRequest(key_id="unknown"), metadata=token
        )
    assert to_api_call_error(caught.value).code == "api_key_not_found"


@pytest.mark.asyncio(loop_scope="module")
async def test_confirm_with_unquoted_outputs_is_refused_without_harm(desk):
    offer = await desk.offer()
    # two bare texts were a wrong number of outputs, which fails a payment
    for outputs in (offer.outputs, [*offer.outputs, "0x12"]):
        result = {"type": gateway_pb2.ACTION_RESULT_TYPE_WALLET_RPC, "output_json": outputs}
        request = gateway_pb2.ConfirmPaymentRequest(
            payment_id=offer.payment_id, option_id=offer.option_id, results=[result]
        )
        gateway = gateway_pb2_grpc.GatewayServiceStub(desk.channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gateway.ConfirmPayment(request, metadata=desk.grpc.wallet)
        error = to_api_call_error(caught.value)
        assert (error.http, error.code) == (400, "params_validation")
        assert error.issues[0]["field"] == "results[0].data[0]"
        assert "a string has its quotes" in error.message
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"


async def test_a_cancelled_watch_leaves_nothing_behind(channel, env, service):
    api = GrpcApi(channel, env)
    payment_id = (await api.create(ORDER))["paymentId"]
    stream = api.watch(payment_id)
    await anext(stream)
    assert service.app.notifier.payments.watcher_count == 1
    await stream.aclose()
    await wait_open_responses(service, 0)


async def test_a_creation_survives_its_caller(channel, env, service):
    """A client that leaves right after sending does not stop the payment's creation."""
    merchant = merchant_pb2_grpc.MerchantServiceStub(channel)
    api = GrpcApi(channel, env)
    metadata = (*api.merchant, ("idempotency-key", "gone"))
    request = merchant_pb2.CreatePaymentRequest(amount=ORDER["amount"])
    call = merchant.CreatePayment(request, metadata=metadata)
    await asyncio.sleep(0)
    call.cancel()
    first = await merchant.CreatePayment(request, metadata=metadata)
    again = await merchant.CreatePayment(request, metadata=metadata)
    assert first == again
