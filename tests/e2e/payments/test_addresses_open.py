"""Test which addresses a payment gets, and who can have none."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_sandbox.devnet.evm import DEVNET
from florin_server.settings import LimitSettings

from tests.support.addresses import (
    CHAIN,
    COIN,
    DOLLAR,
    EURO,
    ORDER,
    PRICE,
    leave_room,
    open_address,
    parse_route,
    post_addresses,
)
from tests.support.operator import block
from tests.support.service_harness import SPEC, call_refused, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
RATES = {COIN: {"USD": "2500.00"}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("open_addresses") / "home"
    async with open_service(home, rates=RATES) as service:
        yield service


async def test_address_follows_from_the_route_of_the_answer(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    route = parse_route(address)
    assert address["address"].lower() == route.compute_address()
    assert (route.value, address["asset"]) == (PRICE, DOLLAR)
    assert (address["received"], address["missing"], address["over"]) == ("0", str(PRICE), "0")
    token, chain_id = route.token, CHAIN.partition(":")[2]
    link = f"@{chain_id}/transfer?address={address['address']}&uint256={PRICE}"
    assert address["uri"].lower() == f"ethereum:{token}{link}".lower()
    detail = await service.rest.detail(payment_id)
    (shown,) = detail["addresses"]
    assert shown == {name: value for name, value in address.items() if name != "minAmount"}
    assert "deposits" not in detail


async def test_same_asset_has_the_same_address(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    first = await open_address(service, payment_id)
    service.clock.advance(30)
    assert await open_address(service, payment_id) == first
    checksum = DOLLAR.rpartition(":")[0] + ":" + DEVNET.token.address.upper().replace("X", "x")
    assert await open_address(service, payment_id, checksum) == first
    other_id = (await service.rest.create(ORDER))["paymentId"]
    assert (await open_address(service, other_id))["address"] != first["address"]


async def test_each_asset_has_its_own_address_in_the_order_of_the_request(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    response = await post_addresses(service, payment_id, [COIN, DOLLAR])
    coin, dollars = response.body["addresses"]
    assert (coin["asset"], dollars["asset"]) == (COIN, DOLLAR)
    assert coin["address"] != dollars["address"]
    # the route of a rated asset ends with its quote, that of a pegged token some time later
    payment = await service.rest.detail(payment_id)
    assert int(coin["route"]["validBefore"]) == int(coin["expiresAt"]) == service.now + 300
    assert int(dollars["expiresAt"]) == payment["expiresAt"]
    assert int(dollars["route"]["validBefore"]) == payment["expiresAt"] + 300


async def test_new_quote_has_a_new_address_up_to_eight(service):
    order = {**ORDER, "expiresAt": service.now + 86_400}
    payment_id = (await service.rest.create(order))["paymentId"]
    addresses = set()
    for _ in range(8):
        address = await open_address(service, payment_id, COIN)
        addresses.add(address["address"])
        service.clock.advance(300)
    assert len(addresses) == 8
    refused = await post_addresses(service, payment_id, [COIN])
    assert refused.refusal == (400, "invalid_state")
    assert "at most 8 addresses" in refused.body["message"]
    assert len((await service.rest.detail(payment_id))["addresses"]) == 8


async def test_asset_that_cannot_pay_is_refused_with_those_that_can(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    refused = await post_addresses(service, payment_id, [EURO])
    assert refused.refusal == (400, "invalid_params")
    assert refused.body["details"]["reason"] == "asset_unavailable"
    assert DOLLAR in refused.body["message"]
    assert EURO not in refused.body["message"].partition("these can")[2]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"assets": []}, "assets"),
        ({"assets": [DOLLAR, DOLLAR]}, "assets"),
        ({"assets": ["dollars"]}, "assets"),
        ({"assets": [DOLLAR] * 9}, "assets"),
        ({"assets": [DOLLAR], "refundAccount": "0x12"}, "refundAccount"),
        ({"assets": [DOLLAR], "refundAccount": f"{CHAIN}:{DEVNET.settler}"}, "refundAccount"),
        ({"assets": [DOLLAR], "refundAccount": "eip155:1:0x" + "11" * 20}, "refundAccount"),
    ],
)
async def test_malformed_request_opens_nothing(service, body, field):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    path = f"/v1/gateway/payment/{payment_id}/addresses"
    refused = await call_refused(service, "POST", path, {**service.rest.wallet, **SPEC}, body=body)
    assert refused.refusal == (400, "params_validation")
    assert field in refused.body["message"]


async def test_payment_that_ends_soon_gets_no_address(service):
    order = {**ORDER, "expiresAt": service.now + 59}
    payment_id = (await service.rest.create(order))["paymentId"]
    refused = await post_addresses(service, payment_id)
    assert refused.refusal == (410, "payment_expired")


async def test_payment_that_is_over_gets_no_address(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await service.rest.cancel(payment_id)
    refused = await post_addresses(service, payment_id)
    assert refused.refusal == (400, "invalid_state")
    # what was sent is still shown
    (shown,) = (await service.rest.detail(payment_id))["addresses"]
    assert shown["address"] == address["address"]


async def test_option_of_an_address_cannot_be_confirmed(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await open_address(service, payment_id)
    (row,) = service.select("SELECT id FROM payment_option WHERE payment_id = ?", payment_id)
    body = {"optionId": row[0], "results": [{"type": "walletRpc", "data": ["0x" + "11" * 32]}]}
    path = f"/v1/gateway/payment/{payment_id}/confirm"
    refused = await service.ask("POST", path, {**service.rest.wallet, **SPEC}, body)
    assert refused.refusal == (400, "invalid_params")


async def test_blocked_account_is_refused_as_the_account_of_returns(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    blocked = "0x" + "5a" * 20
    await block(service, blocked)
    refused = await post_addresses(service, payment_id, refundAccount=f"{CHAIN}:{blocked}")
    assert refused.refusal == (451, "sanctioned_user")


async def test_one_merchant_uses_at_most_half_of_the_watched_addresses(service, monkeypatch):
    leave_room(service, monkeypatch, 1)
    ids = [(await service.rest.create(ORDER))["paymentId"] for _ in range(2)]
    await open_address(service, ids[0])
    refused = await post_addresses(service, ids[1])
    assert refused.refusal == (429, "rate_limited")
    # what was given out stays
    await open_address(service, ids[0])


async def test_flood_of_requests_meets_the_limits_of_a_payment(tmp_path):
    limits = LimitSettings(payment_total_per_minute=3, payment_total_burst=3)
    async with open_service(tmp_path / "home", limits=limits) as service:
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        statuses = [(await post_addresses(service, payment_id)).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert service.select("SELECT count(*) FROM deposit_address") == [(1,)]
