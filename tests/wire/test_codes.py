"""Every documented error code, raised by a real request in the place that the contract names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import customer_pb2, operator_pb2_grpc, partner_pb2, system_pb2
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.errors import ERROR_SPECS, ErrorCode
from florin_server.domain.versions import NEWEST_STABLE_VERSION
from florin_server.money.payments.store import payments

from tests.support.api import to_api_call_error
from tests.support.service import NO_LIMITS
from tests.support.service_harness import DEPLOYED, ORDER, ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet

Refusal = tuple[int, str]
Scene = Callable[[ServiceHarness], Awaitable[Refusal]]
SCENES: dict[ErrorCode, list[Scene]] = {}
UNKNOWN_PAYMENT = "pay_" + "0" * 27
PREVIEW = "2026-02-19.preview"
BLOCKED = EvmTestWallet()
CANCELS = 3

pytestmark = pytest.mark.asyncio(loop_scope="module")


def raises(code: ErrorCode) -> Callable[[Scene], Scene]:
    def note(scene: Scene) -> Scene:
        SCENES.setdefault(code, []).append(scene)
        return scene

    return note


async def get_refusal(
    desk: ServiceHarness,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> Refusal:
    answer = await desk.ask(method, path, headers, body)
    assert set(answer.body) <= {"code", "message", "issues", "details", "requestId"}
    return answer.refusal


async def by_operator(
    desk: ServiceHarness, method: str, request: Any, token: str | None = None
) -> Refusal:
    token = desk.service.secrets.operator_token if token is None else token
    metadata = (("authorization", f"Bearer {token}"),)
    async with grpc.aio.insecure_channel(desk.service.grpc.operator_target) as channel:
        stub = operator_pb2_grpc.OperatorServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await getattr(stub, method)(request, metadata=metadata, timeout=10)
    refusal = to_api_call_error(error.value)
    assert ERROR_SPECS[ErrorCode(refusal.code)].grpc_status == error.value.code().name
    return refusal.http, refusal.code


def side(payment_id: str, call: str = "") -> str:
    return f"/v1/gateway/payment/{payment_id}{call}"


async def created(desk: ServiceHarness, **order: Any) -> str:
    payment_id: str = (await desk.rest.create({**ORDER, **order}))["paymentId"]
    return payment_id


async def succeeded(desk: ServiceHarness) -> str:
    payment_id = await created(desk)
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    answer = await desk.ask("POST", path, desk.rest.merchant, {"outcome": "succeeded"})
    assert answer.status == 200, answer.text
    return payment_id


# the body, the query, and the resources that they name
@raises(ErrorCode.INVALID_PARAMS)
async def _unknown_option(desk: ServiceHarness) -> Refusal:
    body = {"optionId": "nonsense"}
    return await get_refusal(
        desk, "POST", side(await created(desk), "/fetch"), desk.rest.wallet, body
    )


@raises(ErrorCode.INVALID_PARAMS)
async def _query(desk: ServiceHarness) -> Refusal:
    path = side(await created(desk), "/status?maxPollMs=soon")
    return await get_refusal(desk, "GET", path, desk.rest.wallet)


@raises(ErrorCode.PARAMS_VALIDATION)
async def _body(desk: ServiceHarness) -> Refusal:
    body = {"amount": {"unit": "iso4217/USD", "value": "-1"}}
    return await get_refusal(desk, "POST", "/v1/payments", desk.rest.merchant, body)


@raises(ErrorCode.PAYMENT_NOT_FOUND)
async def _no_payment(desk: ServiceHarness) -> Refusal:
    return await get_refusal(desk, "GET", side(UNKNOWN_PAYMENT), desk.rest.wallet)


@raises(ErrorCode.PAYMENT_NOT_FOUND)
async def _no_payment_to_refund(desk: ServiceHarness) -> Refusal:
    return await get_refusal(
        desk, "POST", "/v1/refunds", desk.rest.merchant, {"paymentId": UNKNOWN_PAYMENT}
    )


@raises(ErrorCode.IDEMPOTENCY_CONFLICT)
async def _other_body(desk: ServiceHarness) -> Refusal:
    headers = {**desk.rest.merchant, "Idempotency-Key": "used"}
    await desk.ask("POST", "/v1/payments", headers, ORDER)
    return await get_refusal(
        desk, "POST", "/v1/payments", headers, {**ORDER, "referenceId": "other"}
    )


@raises(ErrorCode.IDEMPOTENCY_CONFLICT)
async def _another_confirm_won(desk: ServiceHarness) -> Refusal:
    offer = await desk.offer()
    await desk.confirm(offer)
    body = {
        "optionId": offer.option_id,
        "results": [{"type": "walletRpc", "data": ["0x" + "22" * 65]}],
    }
    return await get_refusal(
        desk, "POST", side(offer.payment_id, "/confirm"), desk.rest.wallet, body
    )


@raises(ErrorCode.INTERNAL_ERROR)
async def _broken(desk: ServiceHarness) -> Refusal:
    """Report any fault of Florin's as an internal error."""
    payment_id = await created(desk)
    reader = desk.service.app.store.payments
    desk.service.app.store.payments = None  # type: ignore[assignment]
    try:
        return await get_refusal(desk, "GET", side(payment_id), desk.rest.wallet)
    finally:
        desk.service.app.store.payments = reader


# credentials
@raises(ErrorCode.INVALID_API_KEY)
async def _bad_key(desk: ServiceHarness) -> Refusal:
    headers = {**desk.rest.merchant, "Api-Key": desk.unstored_key()}
    return await get_refusal(desk, "GET", f"/v1/payments/{UNKNOWN_PAYMENT}", headers)


@raises(ErrorCode.UNAUTHORIZED)
async def _bad_operator(desk: ServiceHarness) -> Refusal:
    return await by_operator(desk, "ListPartners", partner_pb2.ListPartnersRequest(), "wrong")


@raises(ErrorCode.FORBIDDEN)
async def _wallet_as_merchant(desk: ServiceHarness) -> Refusal:
    _, secret = await desk.key(None)
    headers = {**desk.rest.merchant, "Api-Key": secret}
    return await get_refusal(desk, "POST", "/v1/payments", headers, ORDER)


@raises(ErrorCode.MISSING_API_KEY)
async def _no_key(desk: ServiceHarness) -> Refusal:
    headers = {"Merchant-Id": desk.rest.merchant["Merchant-Id"]}
    return await get_refusal(desk, "GET", f"/v1/payments/{UNKNOWN_PAYMENT}", headers)


@raises(ErrorCode.MISSING_MERCHANT_API_KEY)
async def _app_as_merchant(desk: ServiceHarness) -> Refusal:
    return await get_refusal(desk, "GET", "/v1/payments", desk.rest.wallet)


@raises(ErrorCode.MISSING_MERCHANT_ID)
async def _no_merchant(desk: ServiceHarness) -> Refusal:
    headers = {"Api-Key": desk.rest.merchant["Api-Key"]}
    return await get_refusal(desk, "POST", "/v1/payments", headers, ORDER)


@raises(ErrorCode.HEADER_NOT_ASCII)
async def _not_ascii(desk: ServiceHarness) -> Refusal:
    request = f"GET {side(UNKNOWN_PAYMENT)} HTTP/1.1\r\nHost: x\r\nApi-Key: caf\xe9\r\n\r\n"
    status, _, body = await desk.send_raw(request.encode("latin-1"))
    return status, body["code"]


@raises(ErrorCode.NOT_SANDBOX_API_KEY)
async def _live_key(desk: ServiceHarness) -> Refusal:
    live = await desk.tenant(live=True)
    path = f"/v1/sandbox/payments/{UNKNOWN_PAYMENT}/simulate"
    return await get_refusal(desk, "POST", path, live.headers, {"outcome": "failed"})


@raises(ErrorCode.MISSING_APP_ID)
async def _no_app(desk: ServiceHarness) -> Refusal:
    return await get_refusal(desk, "GET", side(UNKNOWN_PAYMENT), {"Client-Id": "c"})


@raises(ErrorCode.MISSING_CLIENT_ID)
async def _no_client(desk: ServiceHarness) -> Refusal:
    return await get_refusal(
        desk, "GET", side(UNKNOWN_PAYMENT), {"App-Id": desk.env["FLORIN_APP_ID"]}
    )


@raises(ErrorCode.INVALID_APP_ID)
async def _bad_app(desk: ServiceHarness) -> Refusal:
    return await get_refusal(
        desk, "GET", side(UNKNOWN_PAYMENT), {"App-Id": "app_unknown", "Client-Id": "c"}
    )


@raises(ErrorCode.CONFLICTING_AUTH_HEADERS)
async def _both(desk: ServiceHarness) -> Refusal:
    headers = {**desk.rest.wallet, "Api-Key": desk.rest.merchant["Api-Key"]}
    return await get_refusal(desk, "GET", side(UNKNOWN_PAYMENT), headers)


@raises(ErrorCode.MISSING_AUTH_HEADERS)
async def _neither(desk: ServiceHarness) -> Refusal:
    return await get_refusal(desk, "GET", side(UNKNOWN_PAYMENT))


# versions
@raises(ErrorCode.INVALID_API_VERSION)
async def _no_version(desk: ServiceHarness) -> Refusal:
    return await get_refusal(
        desk, "GET", side(UNKNOWN_PAYMENT), {**desk.rest.wallet, "Pay-Version": "newest"}
    )


@raises(ErrorCode.UNKNOWN_API_VERSION)
async def _unpublished(desk: ServiceHarness) -> Refusal:
    return await get_refusal(
        desk, "GET", side(UNKNOWN_PAYMENT), {**desk.rest.wallet, "Pay-Version": "2020-01-01"}
    )


@raises(ErrorCode.API_VERSION_DOWNGRADE)
async def _downgrade(desk: ServiceHarness) -> Refusal:
    app = await desk.wallet_app(pin=PREVIEW)
    return await get_refusal(
        desk, "GET", side(UNKNOWN_PAYMENT), {**app, "Pay-Version": NEWEST_STABLE_VERSION}
    )


# states
@raises(ErrorCode.INVALID_STATE)
async def _cancelled_too_late(desk: ServiceHarness) -> Refusal:
    payment_id = await succeeded(desk)
    return await get_refusal(desk, "POST", side(payment_id, "/cancel"), desk.rest.wallet)


@raises(ErrorCode.PAYMENT_EXPIRED)
async def _expired(desk: ServiceHarness) -> Refusal:
    payment_id = await created(desk, expiresAt=desk.now + 1)
    desk.clock.advance(1)
    path = side(payment_id, "/options")
    return await get_refusal(desk, "POST", path, desk.rest.wallet, {"accounts": []})


@raises(ErrorCode.QUOTE_EXPIRED)
async def _quote_expired(desk: ServiceHarness) -> Refusal:
    """While all prices are 1:1, only a stored option can have lapsed."""
    offer = await desk.offer()
    store = desk.service.app.store
    option = await store.read(payments.find_option(offer.payment_id, offer.option_id))
    assert option is not None
    lapsed = replace(option, id="lapsed", expires_at=desk.now)
    await store.write(payments.put_options([lapsed]))
    body = {"optionId": "lapsed"}
    return await get_refusal(desk, "POST", side(offer.payment_id, "/fetch"), desk.rest.wallet, body)


@raises(ErrorCode.SANCTIONED_USER)
async def _blocked(desk: ServiceHarness) -> Refusal:
    path = side(await created(desk), "/options")
    body = {"accounts": [EvmTestWallet().account, BLOCKED.account]}
    return await get_refusal(desk, "POST", path, desk.rest.wallet, body)


@raises(ErrorCode.PAYMENT_NOT_SUCCEEDED)
async def _not_paid(desk: ServiceHarness) -> Refusal:
    body = {"paymentId": await created(desk)}
    return await get_refusal(desk, "POST", "/v1/refunds", desk.rest.merchant, body)


@raises(ErrorCode.ALREADY_REFUNDED)
async def _refunded(desk: ServiceHarness) -> Refusal:
    body = {"paymentId": await succeeded(desk)}
    assert (await desk.ask("POST", "/v1/refunds", desk.rest.merchant, body)).status == 200
    return await get_refusal(desk, "POST", "/v1/refunds", desk.rest.merchant, body)


# accounts
@raises(ErrorCode.MERCHANT_NOT_FOUND)
async def _foreign_merchant(desk: ServiceHarness) -> Refusal:
    other = await desk.tenant()
    headers = {**desk.rest.merchant, "Merchant-Id": other.merchant.id}
    return await get_refusal(desk, "POST", "/v1/payments", headers, ORDER)


@raises(ErrorCode.MERCHANT_NOT_FOUND)
async def _unknown_merchant(desk: ServiceHarness) -> Refusal:
    return await get_refusal(desk, "GET", "/v1/merchants/mrch_unknown", desk.rest.merchant)


@raises(ErrorCode.MERCHANT_EXISTS)
async def _taken(desk: ServiceHarness) -> Refusal:
    tenant = await desk.tenant()
    request = partner_pb2.ImportMerchantRequest(
        partner_id=tenant.partner.id,
        merchant_id=tenant.merchant.id,
        name="Tea House",
        email="tea@house.example",
    )
    return await by_operator(desk, "ImportMerchant", request)


@raises(ErrorCode.API_KEY_NOT_FOUND)
async def _no_such_key(desk: ServiceHarness) -> Refusal:
    return await by_operator(desk, "RevokeApiKey", partner_pb2.RevokeApiKeyRequest(key_id="none"))


@raises(ErrorCode.PARTNER_NOT_FOUND)
async def _no_such_partner(desk: ServiceHarness) -> Refusal:
    request = partner_pb2.SetPartnerStatusRequest(
        partner_id="none", status=partner_pb2.PARTNER_STATUS_ACTIVE
    )
    return await by_operator(desk, "SetPartnerStatus", request)


@raises(ErrorCode.CUSTOMER_NOT_FOUND)
async def _no_such_customer(desk: ServiceHarness) -> Refusal:
    request = customer_pb2.ExportCustomerRequest(account=EvmTestWallet().account)
    return await by_operator(desk, "ExportCustomer", request)


@raises(ErrorCode.WALLET_NOT_FOUND)
async def _no_such_wallet(desk: ServiceHarness) -> Refusal:
    return await by_operator(desk, "RevokeWallet", partner_pb2.RevokeWalletRequest(app_id="none"))


@raises(ErrorCode.EXECUTOR_NOT_FOUND)
async def _no_such_executor(desk: ServiceHarness) -> Refusal:
    request = system_pb2.PauseExecutorRequest(executor_id="eip155:1:0x" + "11" * 20)
    return await by_operator(desk, "PauseExecutor", request)


# codes of the deployed profile only
@raises(ErrorCode.NOT_FOUND)
async def _unknown_merchant_deployed(desk: ServiceHarness) -> Refusal:
    headers = {**desk.rest.merchant, **DEPLOYED}
    return await get_refusal(desk, "GET", "/v1/merchants/mrch_unknown", headers)


@raises(ErrorCode.NOT_FOUND)
async def _unknown_settlement_deployed(desk: ServiceHarness) -> Refusal:
    headers = {**desk.rest.merchant, **DEPLOYED}
    path = f"/v1/merchants/{headers['Merchant-Id']}/settlements/crypto/none"
    return await get_refusal(desk, "DELETE", path, headers)


@raises(ErrorCode.MISSING_IDEMPOTENCY_KEY)
async def _no_idempotency_key(desk: ServiceHarness) -> Refusal:
    body = {"merchantName": "Tea House", "merchantEmail": "tea@house.example"}
    return await get_refusal(
        desk, "POST", "/v1/merchants", {**desk.rest.merchant, **DEPLOYED}, body
    )


@raises(ErrorCode.SETTLEMENT_ASSET_CONFLICT)
async def _asset_taken(desk: ServiceHarness) -> Refusal:
    tenant = await desk.tenant()
    path = f"/v1/merchants/{tenant.merchant.id}/settlements/crypto"
    item = {"asset": "eip155:1/slip44:60", "destination": "eip155:1:0x" + "11" * 20}
    headers = {**tenant.headers, **DEPLOYED, "Idempotency-Key": "twice"}
    return await get_refusal(desk, "POST", path, headers, {"settlements": [item, item]})


@raises(ErrorCode.RATE_LIMITED)
async def _one_cancel_too_many(desk: ServiceHarness) -> Refusal:
    """Each refused cancel of one payment counts; the one after the last allowed is rate limited."""
    path = side(await succeeded(desk), "/cancel")
    for _ in range(CANCELS):
        assert await get_refusal(desk, "POST", path, desk.rest.wallet) == (400, "invalid_state")
    return await get_refusal(desk, "POST", path, desk.rest.wallet)


@raises(ErrorCode.BAD_GATEWAY)
async def _store_down(desk: ServiceHarness) -> Refusal:
    store = desk.service.app.store
    survey = store.scan

    async def down(op: Any) -> Any:
        raise StoreUnavailable("the disk is gone")

    store.scan = down  # type: ignore[method-assign]
    try:
        return await get_refusal(desk, "GET", "/v1/merchants", {**desk.rest.merchant, **DEPLOYED})
    finally:
        store.scan = survey  # type: ignore[method-assign]


# the store serializes changes, so that no change is ever lost to another
NEVER = {ErrorCode.VERSION_CONFLICT}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory) -> AsyncIterator[ServiceHarness]:
    """Open a service that blocks an account and limits the calls for one payment."""
    settings = {
        "blocked_accounts": (BLOCKED.account,),
        "limits": NO_LIMITS.model_copy(update={"payment_per_minute": 1, "payment_burst": CANCELS}),
    }
    async with open_service(tmp_path_factory.mktemp("codes"), **settings) as opened_desk:
        yield opened_desk


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - NEVER))
async def test_every_code_is_raised_where_the_contract_says(desk, code):
    for scene in SCENES[code]:
        assert await scene(desk) == (ERROR_SPECS[code].http_status, code), scene.__name__
