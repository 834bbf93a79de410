"""A token pauses, or refuses the buyer or the merchant: both protocols report that reason."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import system_pb2
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.domain.chains.evm import abi

from tests.support.anvil_node import sign_faucet_transaction
from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.merchant_tenant import create_merchant_tenant
from tests.support.operator import get_relayer, pause, resume
from tests.support.service_harness import ServiceHarness
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = f"eip155:{DEVNET.chain_id}"
DOLLAR = f"caip19/{CHAIN}/erc20:{DEVNET.token.address}"
FROZEN = "TestDollar: account is frozen"


class Owner:
    """The dollar's owner, who can pause it, and undoes the changes at the end."""

    def __init__(self, desk: ServiceHarness) -> None:
        self.desk = desk
        self.undo: list[tuple[str, str]] = []

    async def does(self, call: str, address: str = "") -> None:
        chain = self.desk.chain
        nonce = int(await chain.ask("eth_getTransactionCount", DEVNET.faucet, "pending"), 16)
        data = abi.encode_selector(call) + (abi.encode_address(address) if address else b"")
        to = bytes.fromhex(DEVNET.token.address[2:])
        receipt = await chain.send(sign_faucet_transaction(nonce, to=to, data=data, gas=100_000))
        assert receipt["status"] == "0x1"

    async def pauses(self) -> None:
        self.undo.append(("unpause()", ""))
        await self.does("pause()")

    async def freezes(self, address: str) -> None:
        self.undo.append(("unBlacklist(address)", address))
        await self.does("blacklist(address)", address)

    async def repents(self) -> None:
        while self.undo:
            await self.does(*self.undo.pop())


@pytest_asyncio.fixture(loop_scope="module")
async def owner(desk):
    owner = Owner(desk)
    yield owner
    await owner.repents()


async def refusals(desk: ServiceHarness, offer: Any) -> list[dict[str, str]]:
    """Return the details of a refused confirm over REST and over gRPC."""
    result = []
    for api in (desk.rest, desk.grpc):
        with pytest.raises(ApiCallError) as caught:
            await api.confirm(offer.payment_id, offer.option_id, offer.outputs)
        assert (caught.value.http, caught.value.code) == (400, "invalid_params")
        assert "signature" not in caught.value.message
        result.append(caught.value.details)
    return result


async def status(desk: ServiceHarness) -> str:
    """Return the doctor's report about the chain."""
    async with open_operator(desk.service) as operator:
        result = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    return next(chain.problem for chain in result.chains if chain.chain_id == CHAIN)


async def test_a_paused_token_refuses_no_signature(desk, owner):
    offer = await desk.offer()
    await owner.pauses()
    assert "is paused" in await status(desk)
    expected = {
        "reason": "token_refused",
        "refused": "everybody",
        "revert": "TestDollar: paused",
    }
    assert await refusals(desk, offer) == [expected, expected]
    buyer = EvmTestWallet()
    result = await desk.rest.options(offer.payment_id, [buyer.account, offer.wallet.account])
    assert result["options"] == []
    await owner.repents()
    assert "is paused" not in await status(desk)
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"


async def test_buyer_refused_by_the_token_gets_token_refused(desk, owner):
    offer = await desk.offer()
    await owner.freezes(offer.wallet.address)
    expected = {"reason": "token_refused", "refused": "payer", "revert": FROZEN}
    assert await refusals(desk, offer) == [expected, expected]
    result = await desk.rest.options(offer.payment_id, [offer.wallet.account])
    assert result["options"] == []
    # one buyer's problem raises no alarm
    assert offer.wallet.address.lower() not in (await status(desk)).lower()


async def test_a_merchant_whom_the_token_refuses_is_offered_nothing_and_an_alarm(
    desk, owner, caplog
):
    address = EvmTestWallet().address.lower()
    tenant = await create_merchant_tenant(desk, address)
    offer = await desk.offer(tenant=tenant)
    await owner.freezes(address)
    expected = {"reason": "token_refused", "refused": "receiver", "revert": FROZEN}
    assert await refusals(desk, offer) == [expected, expected]
    assert (address in await status(desk)) is True
    other = await create_merchant_tenant(desk, address)
    created = await desk.rest.call(
        "POST", "/v1/payments", other.headers, {"amount": {"unit": DOLLAR, "value": "1000000"}}
    )
    with caplog.at_level(logging.WARNING):
        result = await desk.rest.options(created["paymentId"], [EvmTestWallet().account])
    assert result["options"] == []
    assert other.merchant.id in caplog.text
    assert address in caplog.text


async def test_lapsed_payment_reports_the_token_refusal_as_its_reason(desk, owner):
    address = EvmTestWallet().address.lower()
    offer = await desk.offer(tenant=(tenant := await create_merchant_tenant(desk, address)))
    relayer = f"{CHAIN}:{await get_relayer(desk, CHAIN)}"
    await pause(desk, relayer)
    assert (await desk.confirm(offer))["status"] == "processing"
    await owner.freezes(address)
    await resume(desk, relayer)
    ended = await desk.wait_lapsed(offer.payment_id)
    assert (ended["status"], ended["failureCode"]) == ("failed", None)
    path = f"/v1/payments/{offer.payment_id}"
    detail = await desk.rest.call("GET", path, tenant.headers)
    assert (detail["status"], detail["failureCode"]) == ("failed", None)
    assert detail["failureReason"].startswith("The authorization lapsed before it was settled; ")
    assert detail["failureReason"].endswith(f"the merchant's account {address}: {FROZEN}")
    # only a payment that failed has a reason
    fine = await desk.offer()
    assert "failureReason" not in await desk.rest.detail(fine.payment_id)


async def test_revert_text_of_a_token_is_shortened_and_ascii(desk, owner):
    """Strangers write the token's texts; they are cut and cleaned wherever they appear."""
    offer = await desk.offer()
    await owner.freezes(offer.wallet.address)
    (result, _) = await refusals(desk, offer)
    assert json.dumps(result).isascii()
    assert all(len(text) <= 100 for text in result.values())
