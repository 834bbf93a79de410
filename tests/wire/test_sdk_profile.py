"""Releases 1.0.4 and 1.0.5 of an SDK send no version: its name selects the deployed profile."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
import pytest_asyncio
from florin.v1 import merchant_pb2_grpc, payment_pb2

from tests.support.api import to_api_call_error
from tests.support.service_harness import DEPLOYED, ORDER, SPEC, ServiceHarness, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECORDED = [
    {"Sdk-Name": "js-walletconnect-pay", "Sdk-Version": version} for version in ("1.0.4", "1.0.5")
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("shop")) as service:
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def payment_id(desk) -> str:
    return str((await desk.rest.create(ORDER))["paymentId"])


async def params_of(desk: ServiceHarness, payment_id: str, headers: dict[str, str]) -> Any:
    """Return the parameters of the first action; profiles differ in their form only."""
    answer = await desk.ask(
        "POST",
        f"/v1/gateway/payment/{payment_id}/options",
        {**desk.rest.wallet, **headers},
        {"accounts": [WALLET.account]},
    )
    assert answer.status == 200, answer.text
    assert answer.headers["WCP-Version"] == "2026-02-18"
    return answer.body["options"][0]["actions"][0]["data"]["params"]


WALLET = EvmTestWallet()


@pytest.mark.parametrize(
    "headers",
    [
        *RECORDED,
        {"Sdk-Name": "JS-WalletConnect-Pay"},
        {"sdk-name": "  js-walletconnect-pay  "},
        DEPLOYED,
        {**RECORDED[0], **DEPLOYED},
    ],
)
async def test_sdk_without_version_is_answered_in_the_deployed_profile(desk, payment_id, headers):
    assert isinstance(await params_of(desk, payment_id, headers), list)
    key = {"Api-Key": "", **headers}
    answer = await desk.ask("GET", f"/v1/payments/{payment_id}", key)
    assert answer.refusal == (401, "missing_api_key")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        SPEC,
        # a version header decides, whichever client sends it
        {**RECORDED[0], **SPEC},
        {**RECORDED[0], **SPEC, **DEPLOYED},
        {"Sdk-Name": "js-walletconnect-pay-fork"},
        {"Sdk-Name": "walletconnect"},
        {"Sdk-Version": "js-walletconnect-pay"},
    ],
)
async def test_other_callers_are_answered_in_the_spec_profile(desk, payment_id, headers):
    assert isinstance(await params_of(desk, payment_id, headers), str)
    answer = await desk.ask("GET", f"/v1/payments/{payment_id}", headers)
    assert answer.refusal == (401, "missing_auth_headers")


@pytest.mark.parametrize("name", ["Pay-Version", "WCP-Version"])
async def test_empty_version_of_the_sdk_stays_malformed(desk, payment_id, name):
    headers = {**desk.rest.wallet, **RECORDED[1], name: ""}
    answer = await desk.ask("GET", f"/v1/gateway/payment/{payment_id}", headers)
    assert answer.refusal == (400, "invalid_api_version")


async def test_sdk_without_version_is_refused_alike_over_grpc(desk, payment_id):
    stub: Any = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    for metadata, code in (
        ((("sdk-name", "js-walletconnect-pay"),), "missing_api_key"),
        ((("sdk-name", "other"),), "missing_auth_headers"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetPaymentStatus(
                payment_pb2.GetPaymentStatusRequest(payment_id=payment_id), metadata=metadata
            )
        assert to_api_call_error(caught.value).code == code
