"""A token pauses, or refuses the buyer or the merchant: told as that, over both protocols."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import system_pb2
from florin_server.chains.evm import abi
from florin_server.devnet.genesis import DEVNET
from florin_server.flows.operator.executors import pause, resume

from tests.support.anvil_node import by_faucet
from tests.support.api import Refused
from tests.support.desk import Desk
from tests.support.installation import operator_of
from tests.support.shop import shop
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = f"eip155:{DEVNET.chain_id}"
DOLLAR = f"caip19/{CHAIN}/erc20:{DEVNET.token.address}"
FROZEN = "TestDollar: account is frozen"


class Owner:
    """Whoever may stop the dollar, and undoes at the end what it did."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.undo: list[tuple[str, str]] = []

    async def does(self, call: str, address: str = "") -> None:
        chain = self.desk.chain
        nonce = int(await chain.ask("eth_getTransactionCount", DEVNET.faucet, "pending"), 16)
        data = abi.selector(call) + (abi.address(address) if address else b"")
        to = bytes.fromhex(DEVNET.token.address[2:])
        receipt = await chain.send(by_faucet(nonce, to=to, data=data, gas=100_000))
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


async def refusals(desk: Desk, offer: Any) -> list[dict[str, str]]:
    """What is told of a confirm over REST and over gRPC."""
    told = []
    for api in (desk.rest, desk.grpc):
        with pytest.raises(Refused) as caught:
            await api.confirm(offer.payment_id, offer.option_id, offer.outputs)
        assert (caught.value.http, caught.value.code) == (400, "invalid_params")
        assert "signature" not in caught.value.message
        told.append(caught.value.details)
    return told


async def status(desk: Desk) -> str:
    """What the doctor is told of the chain."""
    async with operator_of(desk.service) as operator:
        found = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    return next(one.problem for one in found.chains if one.chain_id == CHAIN)


async def test_a_paused_token_refuses_no_signature(desk, owner):
    offer = await desk.offer()
    await owner.pauses()
    assert "is paused" in await status(desk)
    wanted = {
        "reason": "token_refused",
        "refused": "everybody",
        "revert": "TestDollar: paused",
    }
    assert await refusals(desk, offer) == [wanted, wanted]
    buyer = Wallet()
    told = await desk.rest.options(offer.payment_id, [buyer.account, offer.wallet.account])
    assert told["options"] == []
    await owner.repents()
    assert "is paused" not in await status(desk)
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"


async def test_a_buyer_whom_the_token_refuses_is_told_so(desk, owner):
    offer = await desk.offer()
    await owner.freezes(offer.wallet.address)
    wanted = {"reason": "token_refused", "refused": "payer", "revert": FROZEN}
    assert await refusals(desk, offer) == [wanted, wanted]
    told = await desk.rest.options(offer.payment_id, [offer.wallet.account])
    assert told["options"] == []
    # a buyer is no reason for an alarm
    assert offer.wallet.address.lower() not in (await status(desk)).lower()


async def test_a_merchant_whom_the_token_refuses_is_offered_nothing_and_an_alarm(
    desk, owner, caplog
):
    address = Wallet().address.lower()
    tenant = await shop(desk, address)
    offer = await desk.offer(tenant=tenant)
    await owner.freezes(address)
    wanted = {"reason": "token_refused", "refused": "receiver", "revert": FROZEN}
    assert await refusals(desk, offer) == [wanted, wanted]
    assert (address in await status(desk)) is True
    other = await shop(desk, address)
    created = await desk.rest.call(
        "POST", "/v1/payments", other.headers, {"amount": {"unit": DOLLAR, "value": "1000000"}}
    )
    with caplog.at_level(logging.WARNING):
        told = await desk.rest.options(created["paymentId"], [Wallet().account])
    assert told["options"] == []
    assert other.merchant.id in caplog.text
    assert address in caplog.text


async def test_a_payment_that_lapsed_tells_what_it_waited_for(desk, owner):
    address = Wallet().address.lower()
    offer = await desk.offer(tenant=(tenant := await shop(desk, address)))
    relayer = f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"
    await pause(desk.service.app, relayer)
    assert (await desk.confirm(offer))["status"] == "processing"
    await owner.freezes(address)
    await resume(desk.service.app, relayer)
    ended = await desk.lapse(offer.payment_id)
    assert (ended["status"], ended["failureCode"]) == ("failed", None)
    path = f"/v1/payments/{offer.payment_id}"
    detail = await desk.rest.call("GET", path, tenant.headers)
    assert (detail["status"], detail["failureCode"]) == ("failed", None)
    assert detail["failureReason"].startswith("The authorization lapsed before it was settled; ")
    assert detail["failureReason"].endswith(f"the merchant's account {address}: {FROZEN}")
    # only a payment that failed has a reason
    fine = await desk.offer()
    assert "failureReason" not in await desk.rest.detail(fine.payment_id)


async def test_what_a_token_says_cannot_break_an_answer(desk, owner):
    """Its words come from strangers; they are cut and plain wherever they are told."""
    offer = await desk.offer()
    await owner.freezes(offer.wallet.address)
    (told, _) = await refusals(desk, offer)
    assert json.dumps(told).isascii()
    assert all(len(one) <= 100 for one in told.values())
