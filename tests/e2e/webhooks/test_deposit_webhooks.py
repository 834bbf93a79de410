"""A merchant's back end is notified of money at addresses, if it asks for that."""

from __future__ import annotations

import pytest
import pytest_asyncio
from jsonschema_rs import Draft202012Validator

from tests.support import deployed_back_end
from tests.support.addresses import (
    CHAIN,
    DOLLAR,
    EURO,
    ORDER,
    PRICE,
    PlainSender,
    open_address,
    pass_time,
    wait_for_status,
)
from tests.support.http_stub import serve_stub
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import open_service
from tests.support.until import advance, wait_until
from tests.support.webhook_merchant import PATH

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]
SEEN, RETURNED = "payment.deposit_seen", "payment.deposit_returned"
LATER_S = 3 * 3600
MUCH = 3_000_000


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("deposit_webhooks") / "home"
    webhooks = {"networks": ["127.0.0.0/8"], "endpoints_max": 100}
    async with open_service(home, webhooks=webhooks) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def receiver(service):
    """Receive deposits at one path, and everything and the default at two other_events."""
    async with serve_stub(OK) as server:
        receiver = WebhookReceiver(server)
        server.handler = receiver
        key = {"Api-Key": service.rest.merchant["Api-Key"]}
        receiver.secrets = {}
        paths = {"/deposits": [SEEN, RETURNED], "/all": ["*"], "/default": []}
        for path, events in paths.items():
            body = {"url": receiver.url(path), "events": events}
            created = await service.rest.call("POST", PATH, key, body)
            receiver.secrets[path] = created["secret"]
        yield receiver


async def wait_events(receiver, count):
    return await receiver.wait_events(count, "/deposits", receiver.secrets["/deposits"])


def to_amount(value, asset=DOLLAR):
    return {"unit": f"caip19/{asset}", "value": str(value)}


async def test_deposits_and_their_return_are_sent_to_endpoints_that_name_them(service, receiver):
    sender = await PlainSender(service.chain).fund()
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    wrong = await sender.send_token(address["address"], 5, EURO)
    await pass_time(service, 2)
    part = await sender.send_token(address["address"], PRICE - 10)
    await pass_time(service, 2)
    await sender.send_token(address["address"], 10 + MUCH)
    await wait_for_status(service, payment_id, "succeeded")
    service.clock.advance(LATER_S)

    async def turn() -> None:
        await advance(service.clock, 11)
        await service.chain.mine()

    await wait_until(
        lambda: len(receiver.events("/deposits", receiver.secrets["/deposits"])) >= 4,
        meanwhile=turn,
    )
    events = await wait_events(receiver, 4)
    assert [event["type"] for event in events] == [SEEN, SEEN, SEEN, RETURNED]
    assert len({event["id"] for event in events}) == 4
    for event in events:
        Draft202012Validator(deployed_back_end.EVENT).validate(event)
        assert event["data"]["payment_id"] == payment_id
    versions = [event["data"]["payment_state_version"] for event in events]
    assert versions == sorted(set(versions))
    first, second, third, returned = (event["data"]["deposit"] for event in events)
    sender_account = f"{CHAIN}:{sender.address}"
    assert first["amount"] == to_amount(5, EURO)
    assert (first["received"], first["missing"]) == (to_amount(0), to_amount(PRICE))
    assert first["tx_id"] == wrong["transactionHash"]
    assert second == {
        "tx_id": part["transactionHash"],
        "sender_caip10": sender_account,
        "address_caip10": f"{CHAIN}:{address['address'].lower()}",
        "amount": to_amount(PRICE - 10),
        "is_final": second["is_final"],  # whether it was seen before its block was final
        "received": to_amount(PRICE - 10),
        "missing": to_amount(10),
        "over": to_amount(0),
        "returned_to_caip10": None,
        "payout_id": None,
        "claim_id": None,
    }
    assert (third["missing"], third["over"]) == (to_amount(0), to_amount(MUCH))
    assert [event["data"]["status"] for event in events] == [
        "requires_action",
        "requires_action",
        "requires_action",
        "succeeded",
    ]
    detail = await service.rest.detail(payment_id)
    (payout_id,) = {item["returnedBy"] for item in detail["deposits"] if "returnedBy" in item}
    assert (returned["payout_id"], returned["returned_to_caip10"]) == (payout_id, sender_account)
    assert (returned["amount"], returned["is_final"]) == (to_amount(MUCH), True)
    assert (returned["received"], returned["sender_caip10"]) == (None, sender_account)
    # other endpoints receive the payment alone, and know of no deposit
    for path in ("/all", "/default"):
        other_events = receiver.events(path, receiver.secrets[path])
        assert {event["type"] for event in other_events}.isdisjoint({SEEN, RETURNED})
        assert all("deposit" not in event["data"] for event in other_events)
        assert "payment.settled" in {event["type"] for event in other_events}


async def test_replay_of_a_payment_sends_its_deposits_again(service, receiver):
    sender = await PlainSender(service.chain).fund()
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await sender.send_token(address["address"], 7)
    await pass_time(service, 2)
    (event,) = await wait_events(receiver, 1)
    key = {"Api-Key": service.rest.merchant["Api-Key"]}
    endpoints = (await service.rest.call("GET", PATH, key))["endpoints"]
    (endpoint_id,) = [item["id"] for item in endpoints if item["url"] == receiver.url("/deposits")]
    body = {"paymentId": payment_id, "fromVersion": 0}
    await service.rest.call("POST", f"{PATH}/{endpoint_id}/replay", key, body)
    events = await wait_events(receiver, 2)
    assert events == [event, event]
