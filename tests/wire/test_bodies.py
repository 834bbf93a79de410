"""Invalid bodies and messages are refused on every route, without any effect."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import account_pb2, merchant_pb2, merchant_pb2_grpc
from florin_server.api.server.field_paths import to_proto_path
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from google.api import annotations_pb2
from google.rpc import error_details_pb2
from grpc_rest_gateway.fieldpaths import to_json_path
from grpc_status import rpc_status

from tests.support.api import grpc_metadata
from tests.support.service_harness import CREATE, ORDER, ServiceHarness, call_refused, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


def routes() -> list[tuple[str, str, str]]:
    """Return name, method and path of every route that takes a body."""
    results = []
    for service in PUBLIC_SERVICES:
        for method in service.methods:
            rule = method.GetOptions().Extensions[annotations_pb2.http]
            for binding in (rule, *rule.additional_bindings):
                kind = binding.WhichOneof("pattern")
                if kind is not None and binding.body:
                    path = getattr(binding, kind).replace("{", "").replace("}", "")
                    results.append((f"{service.name}.{method.name}", kind.upper(), path))
    return results


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("shop")) as service:
        yield service


@pytest.mark.parametrize(("name", "method", "path"), routes(), ids=lambda value: value)
async def test_null_is_no_object_on_any_route(desk, name, method, path):
    key = {"Idempotency-Key": name}
    for body in (b"null", b" null\n"):
        answer = await call_refused(desk, method, path, {**desk.rest.merchant, **key}, data=body)
        assert answer.refusal == (400, "params_validation")
        assert answer.body["message"] == "Validation error: the body must be an object"


async def test_null_creates_no_endpoint_and_rotates_no_secret(desk):
    tenant = await desk.tenant()
    created = await desk.ask("POST", "/v1/webhook-endpoints", tenant.headers, {"url": ""})
    before = desk.select("SELECT * FROM webhook_endpoint")
    path = f"/v1/webhook-endpoints/{created.body['endpoint']['id']}"
    for method, where in (
        ("POST", "/v1/webhook-endpoints"),
        ("PATCH", path),
        ("POST", f"{path}/rotate"),
    ):
        answer = await desk.ask(method, where, tenant.headers, data=b"null")
        assert answer.refusal == (400, "params_validation")
        assert desk.select("SELECT * FROM webhook_endpoint") == before


async def refusal(desk: ServiceHarness, raw: bytes, headers: dict[str, str], path: str) -> Any:
    call = desk.channel.unary_unary(path)(raw, metadata=grpc_metadata(headers))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"])
async def test_bytes_that_are_no_message_are_an_invalid_argument(desk, raw):
    path = "/florin.v1.MerchantService/CreatePayment"
    tenant = await desk.tenant()
    error = await refusal(desk, raw, tenant.headers, path)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "Validation error: the request is not a valid message"
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(error).details[0].Unpack(info)
    assert info.metadata["code"] == "params_validation"
    # callers without credentials get the refusal for those
    stranger = await refusal(desk, raw, {}, path)
    assert stranger.code() is grpc.StatusCode.UNAUTHENTICATED
    open_ = await refusal(desk, b"\xff\xff\xff", {}, "/grpc.health.v1.Health/Check")
    assert open_.code() is grpc.StatusCode.INVALID_ARGUMENT
    watch = desk.channel.unary_stream("/florin.v1.MerchantService/WatchPayment")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch(raw, metadata=grpc_metadata(tenant.headers)).read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Error" not in caught.value.details()


async def test_members_at_fault_have_proto_names_over_grpc_and_json_names_over_rest(desk):
    body = {**ORDER, "referenceId": "x" * 256}
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, body)
    assert [issue["field"] for issue in answer.body["issues"]] == ["referenceId"]
    request = merchant_pb2.CreatePaymentRequest(
        amount={"unit": "iso4217/USD", "value": "1250"}, reference_id="x" * 256
    )
    stub: Any = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CreatePayment(request, metadata=desk.grpc.merchant)
    bad = error_details_pb2.BadRequest()
    assert any(detail.Unpack(bad) for detail in rpc_status.from_call(caught.value).details)
    assert [field_violation.field for field_violation in bad.field_violations] == ["reference_id"]


async def test_field_paths_translate_between_proto_and_json_names():
    request = account_pb2.CreateMerchantRequest.DESCRIPTOR
    for proto, json in (
        ("merchant_email", "merchantEmail"),
        ("merchant_email[3].merchant_name", "merchantEmail[3].merchant_name"),
        ("unknown.merchant_email", "unknown.merchant_email"),
        ("", ""),
    ):
        assert to_json_path(request, proto) == json
        assert to_proto_path(request, json) == proto
        # an older server sends JSON names
        assert to_json_path(request, json) == json
    confirm = merchant_pb2.CreatePaymentRequest.DESCRIPTOR
    assert to_proto_path(confirm, "checkout.successUrl") == "checkout.success_url"
    assert to_json_path(confirm, "checkout.success_url") == "checkout.successUrl"
