"""Records of a confirm: which account confirmed, and why its payment failed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from florin_server.base.topics import Topic
from florin_server.money.payments.service import confirm
from florin_server.money.payments.store import payments
from florin_server.rails.types import RailUnavailable

from tests.support.api import ApiCallError
from tests.support.service_harness import SPEC

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIGNATURE = "0x" + "11" * 65


async def detail(desk, payment_id: str) -> dict:
    headers = {**desk.rest.merchant, **SPEC}
    return await desk.rest.call("GET", f"/v1/payments/{payment_id}", headers)


async def test_the_merchant_learns_which_wallet_paid(desk):
    app = await desk.wallet_app(icon="https://purse.example/icon.png")
    for headers, name, icon in (
        (app, "Purse", "https://purse.example/icon.png"),
        ({"Api-Key": (await desk.key(None))[1]}, "unknown", None),
    ):
        offer = await desk.offer()
        body = {
            "optionId": offer.option_id,
            "results": [{"type": "walletRpc", "data": offer.outputs}],
        }
        path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
        assert (await desk.rest.call("POST", path, headers, body))["status"] == "processing"
        await desk.wait_final(offer.payment_id)
        buyer = (await detail(desk, offer.payment_id))["buyer"]
        assert (buyer["accountProviderName"], buyer.get("accountProviderIcon")) == (name, icon)


async def test_accepted_payment_wakes_the_settler(desk):
    """Otherwise the settler would look with the next block, which can take long."""
    woken = asyncio.Event()
    unsubscribe = desk.service.app.notifier.subscribe(Topic.SETTLEMENT, woken, "eip155:31337")
    offer = await desk.offer()
    assert (await desk.confirm(offer))["status"] == "processing"
    assert woken.is_set()
    unsubscribe()
    await desk.wait_final(offer.payment_id)


async def test_payment_is_searched_from_its_offer_if_no_node_answers_its_confirm(desk, monkeypatch):
    async def fail(*_: object) -> int:
        raise RailUnavailable

    rail = desk.service.app.rails["eip155:31337"]
    await desk.chain.mine(2 * rail.reorg_depth)
    offer = await desk.offer()
    store = desk.service.app.store
    option = await store.read(payments.find_option(offer.payment_id, offer.option_id))
    monkeypatch.setattr(confirm, "get_head", fail)
    assert (await desk.confirm(offer))["status"] == "processing"
    query = "SELECT from_block FROM confirm WHERE payment_id = ?"
    ((from_block,),) = desk.select(query, offer.payment_id)
    assert from_block == option.head - rail.reorg_depth > 0
    await desk.wait_final(offer.payment_id)


async def test_the_merchant_learns_why_a_confirm_ended_its_payment(desk):
    offer = await desk.offer()
    result = await desk.rest.confirm(offer.payment_id, offer.option_id, [SIGNATURE] * 3)
    assert (result["status"], result["failureCode"]) == ("failed", None)
    results = await detail(desk, offer.payment_id)
    assert results["failureReason"] == "results do not match the actions"


async def test_only_the_operator_can_see_that_a_payer_is_not_served(desk):
    offer = await desk.offer(referenceId="florin_test:declined")
    result = await desk.confirm(offer)
    assert (result["status"], result["failureCode"]) == ("failed", "declined_user")
    assert "failureReason" not in await detail(desk, offer.payment_id)
    query = "SELECT failure_detail FROM payment WHERE id = ?"
    assert desk.select(query, offer.payment_id) == [("payer is blocked",)]


@pytest.mark.parametrize("api", ["rest", "grpc"])
async def test_a_wallet_learns_which_output_cannot_be_read(desk, api):
    offer = await desk.offer()
    with pytest.raises(ApiCallError) as caught:
        await getattr(desk, api).confirm(offer.payment_id, offer.option_id, ["0x12"])
    assert caught.value.message == "Result is not the output of its action"
    assert caught.value.details == {"reason": "unreadable_output", "index": "0"}


async def test_an_option_of_another_payment_is_unknown(desk):
    offer, other = [await desk.offer() for _ in range(2)]
    with pytest.raises(ApiCallError) as caught:
        await desk.rest.confirm(offer.payment_id, other.option_id, offer.outputs)
    assert (caught.value.http, caught.value.code) == (400, "invalid_params")
    assert caught.value.message == "Unknown option"


async def test_a_price_that_lapsed_is_not_paid(desk, monkeypatch):
    (rail,) = desk.service.app.rails.values()
    offered = rail.offers.build_option
    monkeypatch.setattr(
        rail.offers, "build_option", lambda *of: replace(offered(*of), expires_at=desk.now + 30)
    )
    offers = [await desk.offer() for _ in range(2)]
    desk.clock.advance(29)
    assert (await desk.confirm(offers[0]))["status"] == "processing"
    desk.clock.advance(1)
    with pytest.raises(ApiCallError) as caught:
        await desk.confirm(offers[1])
    assert (caught.value.http, caught.value.code) == (409, "quote_expired")
    await desk.wait_final(offers[0].payment_id)
