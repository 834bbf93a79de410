"""Idempotency keys: those of wallet calls refuse other requests, and account calls need one."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import (
    account_pb2,
    admin_pb2,
    admin_pb2_grpc,
    gateway_pb2,
    gateway_pb2_grpc,
    merchant_pb2,
)
from florin_server.api.server import idempotency
from florin_server.api.server.idempotency import build_idempotency_key
from florin_server.api.server.methods import index_methods
from florin_server.domain.accounts.caller import Caller
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from tests.support.api import grpc_metadata, to_api_call_error
from tests.support.service_harness import DEPLOYED, ORDER, SPEC, ServiceHarness, ServiceResponse
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

CONFLICT = (409, "idempotency_conflict")
OTHER_BODY = {"reason": "different_body"}
IN_FLIGHT = {"reason": "in_flight"}
WEEK_S = 7 * 86_400

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Purse:
    """One wallet app's client, with keys of its own."""

    def __init__(self, desk: ServiceHarness, headers: dict[str, str]) -> None:
        self.desk, self.headers = desk, headers

    async def ask(
        self, call: str, key: str, body: Any = None, payment: str = "nonsense", **headers: str
    ) -> ServiceResponse:
        sent = {**self.headers, "Idempotency-Key": key, **headers}
        path = f"/v1/gateway/payment/{payment}/{call}"
        return await self.desk.ask("POST", path, sent, body)

    async def options(self, key: str, *accounts: str, payment: str = "nonsense") -> ServiceResponse:
        return await self.ask("options", key, {"accounts": accounts}, payment)

    async def options_by_grpc(
        self, key: str, *accounts: str, payment: str = "nonsense", seconds: float | None = 20
    ) -> Any:
        stub = gateway_pb2_grpc.GatewayServiceStub(self.desk.channel)
        sent = {**self.headers, "Idempotency-Key": key}
        request = gateway_pb2.GetPaymentOptionsRequest(payment_id=payment, accounts=accounts)
        return await stub.GetPaymentOptions(request, metadata=grpc_metadata(sent), timeout=seconds)


@pytest_asyncio.fixture(loop_scope="module")
async def purse(desk) -> Purse:
    return Purse(desk, await desk.wallet_app())


def different(answer: ServiceResponse) -> bool:
    return answer.refusal == CONFLICT and answer.body["details"] == OTHER_BODY


def results(offer: Any) -> dict[str, Any]:
    found_results = [{"type": "walletRpc", "data": offer.outputs}]
    return {"optionId": offer.option_id, "results": found_results}


async def test_another_request_under_a_key_is_refused_on_every_call(desk, purse):
    offer, other = await desk.offer(), await desk.offer()
    fetch, confirm = {"optionId": offer.option_id}, results(offer)
    for call, body, changed in (
        ("options", {"accounts": []}, {"accounts": ["x"]}),
        ("fetch", fetch, {**fetch, "data": "x"}),
        ("confirm", confirm, {**confirm, "optionId": "another"}),
    ):
        assert (await purse.ask(call, call, body, offer.payment_id)).status == 200
        # a confirmed payment proceeds automatically
        before = desk.rows()["idempotency"]
        assert different(await purse.ask(call, call, changed, offer.payment_id)), call
        assert different(await purse.ask(call, call, body, other.payment_id)), call
        assert desk.rows()["idempotency"] == before
    assert (await purse.ask("cancel", "cancel", None, other.payment_id)).status == 200
    assert different(await purse.ask("cancel", "cancel", None, offer.payment_id))
    # the operation is part of it too
    assert different(await purse.ask("fetch", "options", fetch, offer.payment_id))
    await desk.wait_final(offer.payment_id)


async def test_answers_under_a_key_are_current(desk, purse):
    offer = await desk.offer()
    first = await purse.ask("confirm", "a", results(offer), offer.payment_id)
    assert first.status == 200
    await desk.wait_final(offer.payment_id)
    again = await purse.ask("confirm", "a", results(offer), offer.payment_id)
    assert (again.status, again.body["status"]) == (200, "succeeded")
    assert "Idempotent-Replayed" not in again.headers


async def test_a_refused_request_leaves_its_key_unused(desk, purse):
    offer = await desk.offer()
    before = desk.rows()["idempotency"]
    for body in ({"optionId": "unknown"}, {}, {"optionId": offer.option_id, "data": "x"}):
        assert (await purse.ask("fetch", "a", body, offer.payment_id)).status == 400
    assert desk.rows()["idempotency"] == before
    good = {"optionId": offer.option_id}
    assert (await purse.ask("fetch", "a", good, offer.payment_id)).status == 200
    assert desk.rows()["idempotency"] == before + 1


async def test_keys_belong_to_their_credential(desk, purse):
    assert (await purse.options("a")).status == 200
    client = Purse(desk, {**purse.headers, "Client-Id": "another"})
    keyed = Purse(desk, {"Api-Key": (await desk.key(None))[1]})
    for other in (client, keyed, Purse(desk, await desk.wallet_app(live=True))):
        assert (await other.options("a", "x")).status == 200
        assert different(await other.options("a", "y"))
    # a merchant's keys are its partner's
    tenant = await desk.tenant()
    headers = {**tenant.headers, "Idempotency-Key": "a"}
    assert (await desk.ask("POST", "/v1/payments", headers, ORDER)).status == 201
    assert (await Purse(desk, {"Api-Key": tenant.secret}).options("a")).status == 200


async def test_rest_and_grpc_share_keys(desk, purse):
    account = EvmTestWallet().account
    assert (await purse.options("rest first", account)).status == 200
    # a call without a deadline waits for its turn as well
    await purse.options_by_grpc("rest first", account, seconds=None)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await purse.options_by_grpc("rest first", "x")
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert to_api_call_error(caught.value).details == OTHER_BODY
    await purse.options_by_grpc("grpc first", account)
    assert (await purse.options("grpc first", account)).status == 200
    assert different(await purse.options("grpc first", "x"))


async def test_a_key_may_be_used_anew_after_a_week(desk, purse):
    assert (await purse.options("a")).status == 200
    desk.clock.advance(WEEK_S - 1)
    assert different(await purse.options("a", "x"))
    desk.clock.advance(1)
    assert (await purse.options("a", "x")).status == 200
    assert different(await purse.options("a"))


async def test_the_bounds_of_a_key(desk, purse):
    assert (await purse.options("k" * 255)).status == 200
    assert different(await purse.options("k" * 255, "x"))
    assert (await purse.options("k" * 256)).refusal == (400, "invalid_params")
    # no header means no key
    assert [(await purse.options("", *accounts)).status for accounts in ("x", "y")] == [200, 200]


class Held:
    """A rail that answers when it is released, and records its calls."""

    def __init__(self, rail: Any) -> None:
        self.payable = rail.offers.list_payable
        self.call_started = asyncio.Event()
        self.released = asyncio.Event()
        self.calls = 0

    async def __call__(self, *args: Any) -> Any:
        self.calls += 1
        self.call_started.set()
        await self.released.wait()
        return await self.payable(*args)


@pytest.fixture
def rail(desk, monkeypatch) -> Held:
    (rail,) = desk.service.app.rails.values()
    held = Held(rail)
    monkeypatch.setattr(rail.offers, "list_payable", held)
    return held


@pytest_asyncio.fixture(loop_scope="module")
async def payment(desk) -> str:
    return str((await desk.rest.create(ORDER))["paymentId"])


async def waiting(desk: ServiceHarness, count: int) -> None:
    """Return once so many calls use a key."""
    await wait_until(lambda: desk.service.grpc.locks.call_count, count)


async def test_equal_requests_wait_for_each_other_and_different_requests_conflict(
    desk, purse, rail, payment
):
    account = EvmTestWallet().account
    calls = [asyncio.create_task(purse.options("a", account, payment=payment)) for _ in range(3)]
    calls.append(asyncio.create_task(purse.options_by_grpc("a", account, payment=payment)))
    await rail.call_started.wait()
    late = asyncio.create_task(purse.options("a", "x", payment=payment))
    await waiting(desk, 5)
    assert rail.calls == 1
    rail.released.set()
    first, second, third, fourth = await asyncio.gather(*calls)
    assert first.status == 200
    assert first.body["options"] == second.body["options"] == third.body["options"]
    assert [option.id for option in fourth.options] == [o["id"] for o in first.body["options"]]
    assert different(await late)
    # each is looked at once, and the first again after it got test money
    assert rail.calls == 4 + 1
    await waiting(desk, 0)


async def test_requests_under_other_keys_do_not_wait(desk, purse, rail, payment):
    first = asyncio.create_task(purse.options("a", EvmTestWallet().account, payment=payment))
    await rail.call_started.wait()
    assert (await purse.options("b")).status == 200
    rail.released.set()
    assert (await first).status == 200


async def test_request_waiting_past_its_deadline_is_refused(
    desk, purse, rail, payment, monkeypatch
):
    # on a busy machine a refusal can exceed its deadline
    monkeypatch.setattr(idempotency, "_MARGIN_S", 5.0)
    account = EvmTestWallet().account
    first = asyncio.create_task(purse.options("a", account, payment=payment))
    await rail.call_started.wait()
    body = {"accounts": [account]}
    answer = await purse.ask("options", "a", body, payment, **{"grpc-timeout": "5200m"})
    assert answer.refusal == CONFLICT
    assert answer.body["details"] == IN_FLIGHT
    assert answer.headers["Retry-After"] == "1"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await purse.options_by_grpc("a", account, payment=payment, seconds=5.2)
    assert caught.value.code() is grpc.StatusCode.ABORTED
    assert (to_api_call_error(caught.value).http, to_api_call_error(caught.value).details) == (
        409,
        IN_FLIGHT,
    )
    retry = error_details_pb2.RetryInfo()
    status = rpc_status.from_call(caught.value)
    assert [detail.Unpack(retry) for detail in status.details].count(True) == 1
    assert retry.retry_delay.seconds == 1
    rail.released.set()
    assert (await first).status == 200
    await waiting(desk, 0)


async def test_canceled_request_lets_the_next_request_run(desk, purse, rail, payment):
    account = EvmTestWallet().account
    first = asyncio.create_task(purse.options_by_grpc("a", account, payment=payment))
    await rail.call_started.wait()
    second = asyncio.create_task(purse.options_by_grpc("a", account, payment=payment))
    third = asyncio.create_task(purse.options("a", "x", payment=payment))
    await waiting(desk, 3)
    second.cancel()
    await waiting(desk, 2)
    # the running one leaves the key unused
    first.cancel()
    assert (await third).status == 200
    await waiting(desk, 0)


# required keys
DEMANDED = [
    ("/v1/merchants", "CreateMerchant", account_pb2.CreateMerchantRequest()),
    (
        "/v1/merchants/{}/settlements/crypto",
        "CreateCryptoSettlements",
        account_pb2.CreateCryptoSettlementsRequest(),
    ),
]


@pytest.mark.parametrize(
    ("profile", "code"),
    [({}, "invalid_params"), (SPEC, "invalid_params"), (DEPLOYED, "missing_idempotency_key")],
)
@pytest.mark.parametrize(("path", "name", "request_"), DEMANDED)
async def test_a_key_that_must_be_sent(desk, profile, code, path, name, request_):
    tenant = await desk.tenant()
    headers = {**tenant.headers, **profile}
    before = desk.rows()
    for key in ({}, {"Idempotency-Key": ""}):
        answer = await desk.ask("POST", path.format(tenant.merchant.id), {**headers, **key}, {})
        assert answer.refusal == (400, code)
        assert answer.body["message"] == "Idempotency-Key is required"
    stub = admin_pb2_grpc.AdminServiceStub(desk.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(stub, name)(request_, metadata=grpc_metadata(headers))
    assert (to_api_call_error(caught.value).http, to_api_call_error(caught.value).code) == (
        400,
        code,
    )
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert desk.rows() == before
    # with a key the body is read
    answer = await desk.ask(
        "POST", path.format(tenant.merchant.id), {**headers, "Idempotency-Key": "a"}, {}
    )
    assert answer.refusal == (400, "params_validation")


async def test_only_the_create_merchant_key_is_permanent():
    services = (
        admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
        merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
    )
    caller = Caller(live=False, credential="one", partner_id="prtn_1")
    request = account_pb2.CreateMerchantRequest()
    stored = {
        method.name.rpartition(".")[2]
        for method in index_methods(services).values()
        if method.rule.idempotency and build_idempotency_key(method, caller, "a", request).permanent
    }
    assert stored == {"CreateMerchant"}
