"""Names and scopes of API keys, and changes to both while the keys are used."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import access_pb2, merchant_pb2_grpc, partner_pb2, payment_pb2
from florin_server.domain.accounts.account import SCOPES

from tests.support.api import ApiCallError, grpc_metadata, to_api_call_error
from tests.support.installation import open_operator
from tests.support.service_harness import CREATE, ORDER

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ, CREATES, REFUND = (
    access_pb2.KEY_SCOPE_READ,
    access_pb2.KEY_SCOPE_CREATE,
    access_pb2.KEY_SCOPE_REFUND,
)
FORBIDDEN = (403, "forbidden")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(desk):
    async with open_operator(desk.service) as operator:
        yield operator


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk):
    return await desk.tenant()


async def change(operator, key_id: str, **changes: Any) -> partner_pb2.ApiKey:
    request = partner_pb2.UpdateApiKeyRequest(key_id=key_id, **changes)
    return (await operator.call("UpdateApiKey", request)).key


async def code(operator, key_id: str, **changes: Any) -> tuple[int, str]:
    with pytest.raises(ApiCallError) as caught:
        await change(operator, key_id, **changes)
    return caught.value.http, caught.value.code


async def test_a_key_is_named_and_renamed(operator, tenant):
    created = await operator.call(
        "CreateApiKey",
        partner_pb2.CreateApiKeyRequest(
            kind=partner_pb2.API_KEY_KIND_PARTNER, partner_id=tenant.partner.id, name="Shop"
        ),
    )
    assert created.key.name == "Shop"
    renamed = await change(operator, created.key.key_id, name="Till 2")
    assert (renamed.name, renamed.scopes) == ("Till 2", created.key.scopes)
    assert (await change(operator, created.key.key_id, name="")).name == ""
    listed = await operator.call("ListApiKeys", partner_pb2.ListApiKeysRequest())
    # existing keys have no name, and keep the scope that they had
    (old,) = [key for key in listed.keys if key.key_id == tenant.key_id]
    assert (old.name, len(old.scopes)) == ("", len(SCOPES))


async def test_a_key_may_do_less_at_once_and_more_again(desk, operator, tenant):
    created = await desk.ask("POST", CREATE, tenant.headers, ORDER)
    read = f"{CREATE}/{created.body['paymentId']}"
    narrowed = await change(operator, tenant.key_id, scopes=[READ])
    assert narrowed.scopes == [READ]
    assert (await desk.ask("POST", CREATE, tenant.headers, ORDER)).refusal == FORBIDDEN
    assert (await desk.ask("GET", read, tenant.headers)).status == 200
    await change(operator, tenant.key_id, scopes=[CREATES])
    assert (await desk.ask("GET", read, tenant.headers)).refusal == FORBIDDEN
    assert (await desk.ask("GET", f"{read}/events", tenant.headers)).refusal == FORBIDDEN
    await change(operator, tenant.key_id, scopes=[READ, CREATES])
    assert (await desk.ask("POST", CREATE, tenant.headers, ORDER)).status == 201


async def test_invalid_key_change_is_refused(desk, operator, tenant):
    wallet, _ = await desk.key(None)
    assert await code(operator, wallet, scopes=[READ, REFUND]) == (400, "params_validation")
    assert await code(operator, wallet, name="x" * 65) == (400, "params_validation")
    assert await code(operator, wallet, name="a\nb") == (400, "params_validation")
    assert await code(operator, "unknown1", name="x") == (404, "api_key_not_found")
    await desk.revoke(tenant.key_id)
    # a revoked key does not come back
    assert await code(operator, tenant.key_id, scopes=[READ]) == (400, "invalid_state")


@pytest.mark.parametrize("loses", ["scope", "key"])
async def test_a_stream_ends_for_a_key_that_may_not_read_any_more(desk, operator, tenant, loses):
    payment = (await desk.ask("POST", CREATE, tenant.headers, ORDER)).body["paymentId"]
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(tenant.headers)
    request = payment_pb2.WatchPaymentRequest(payment_id=payment)
    stream = stub.WatchPayment(request, metadata=metadata)
    assert (await asyncio.wait_for(stream.read(), 10)).version == 0
    _, other = await desk.key(tenant.partner.id)
    if loses == "scope":
        await change(operator, tenant.key_id, scopes=[CREATES])
    else:
        await desk.revoke(tenant.key_id)
    # later changes reach other callers only
    cancel = {**tenant.headers, "Api-Key": other}
    assert (await desk.ask("POST", f"{CREATE}/{payment}/cancel", cancel)).status == 200
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(stream.read(), 10)
    output = "forbidden" if loses == "scope" else "invalid_api_key"
    assert to_api_call_error(caught.value).code == output
    # the initial metadata is repeated, because a caller that is refused late may have lost it
    ahead, after = dict(await stream.initial_metadata()), dict(await stream.trailing_metadata())
    assert after["request-id"] == ahead["request-id"] != ""


async def test_stream_continues_for_a_key_that_may_still_read(desk, operator, tenant):
    payment = (await desk.ask("POST", CREATE, tenant.headers, ORDER)).body["paymentId"]
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(tenant.headers)
    request = payment_pb2.WatchPaymentRequest(payment_id=payment)
    stream = stub.WatchPayment(request, metadata=metadata)
    assert (await asyncio.wait_for(stream.read(), 10)).version == 0
    await change(operator, tenant.key_id, scopes=[READ, CREATES])
    path = f"{CREATE}/{payment}/cancel"
    assert (await desk.ask("POST", path, tenant.headers)).status == 200
    last = await asyncio.wait_for(stream.read(), 10)
    assert last.payment.status == payment_pb2.PAYMENT_STATUS_CANCELLED
