"""Test how a buyer claims what an exchange sent too much, and how the merchant returns it."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio
from florin.v1 import held_pb2, payout_pb2

from tests.support.addresses import (
    CHAIN,
    COIN,
    DOLLAR,
    ORDER,
    PRICE,
    ExchangeLikeSender,
    PlainSender,
    open_address,
    pass_time,
    read_tokens,
    wait_for_status,
)
from tests.support.command import run_florin
from tests.support.deposit_claims import CLAIM_ACCOUNT, hold_claimable_money
from tests.support.installation import open_operator
from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.until import advance, wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
LATER_S = 3 * 3600
EXCESS = 3_000_000


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("deposit_claims") / "home"
    async with open_service(home, rates={COIN: {"USD": "2500.00"}}) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def exchange(service):
    return await ExchangeLikeSender.deploy(await PlainSender(service.chain).fund())


async def list_held(service, payment_id):
    request = held_pb2.ListHeldPaymentsRequest(all=True)
    async with open_operator(service.service) as operator:
        listed = await operator.call("ListHeldPayments", request)
    return [item for item in listed.held_payments if item.payment_id == payment_id]


async def count_returned(service, payment_id):
    async with open_operator(service.service) as operator:
        listed = await operator.call("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
    done = payout_pb2.PAYOUT_STATUS_DONE
    return sum(item.status == done for item in listed.payouts if item.payment_id == payment_id)


async def overpay(service, exchange):
    """Return a payment that an exchange paid with too much, and whose excess is held."""
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await exchange.send_tokens([(address["address"], PRICE + EXCESS)])
    await wait_for_status(service, payment_id, "succeeded")
    service.clock.advance(LATER_S)

    async def count() -> int:
        return len(await list_held(service, payment_id))

    await wait_until(count, 1, meanwhile=lambda: turn(service))
    return payment_id


async def turn(service):
    await advance(service.clock, 11)
    await service.chain.mine()


async def post_claim(service, payment_id, account, **more):
    path = f"/v1/gateway/payment/{payment_id}/claims"
    body = {"asset": DOLLAR, "account": account, **more}
    return await service.ask("POST", path, service.rest.wallet, body)


async def decide(service, payment_id, claim_id, verb, **headers):
    path = f"/v1/payments/{payment_id}/deposit-claims/{claim_id}/{verb}"
    return await service.ask("POST", path, {**service.rest.merchant, **headers})


async def test_buyer_gets_back_what_an_exchange_sent_too_much(service, exchange):
    payment_id = await overpay(service, exchange)
    stranger, buyer = PlainSender(service.chain), PlainSender(service.chain)
    first = await post_claim(service, payment_id, f"{CHAIN}:{stranger.address}")
    assert first.status == 200
    # claims are listed by time
    service.clock.advance(1)
    response = await post_claim(
        service, payment_id, f"{CHAIN}:{buyer.address}", message="Withdrawal 8842115"
    )
    (claimed,) = response.body["claims"]
    # of other claims a buyer reads nothing, and no account at all
    assert claimed == {
        "claimId": claimed["claimId"],
        "asset": DOLLAR,
        "amount": str(EXCESS),
        "state": "open",
    }
    assert stranger.address not in response.text.lower()
    path = f"/v1/payments/{payment_id}/deposit-claims"
    listed = (await service.rest.call("GET", path, service.rest.merchant))["claims"]
    assert [(item["account"].lower(), item["message"], item["state"]) for item in listed] == [
        (f"{CHAIN}:{stranger.address}", "", "open"),
        (f"{CHAIN}:{buyer.address}", "Withdrawal 8842115", "open"),
    ]
    (held,) = await list_held(service, payment_id)
    assert [claim.claim_id for claim in held.claims] == [item["claimId"] for item in listed]
    key = {"Idempotency-Key": "return-8842115"}
    confirmed = await decide(service, payment_id, claimed["claimId"], "confirm", **key)
    assert confirmed.status == 200, confirmed.text
    assert (confirmed.body["state"], confirmed.body["decidedBy"]) == ("confirmed", "merchant")
    for headers in (key, {}):
        again = await decide(service, payment_id, claimed["claimId"], "confirm", **headers)
        assert (again.status, again.body) == (200, confirmed.body)
    refused = await decide(service, payment_id, listed[0]["claimId"], "confirm")
    assert refused.refusal == (400, "invalid_state")
    await wait_until(
        lambda: count_returned(service, payment_id), 1, meanwhile=lambda: turn(service)
    )
    assert await read_tokens(service.chain, buyer.address) == EXCESS
    assert await read_tokens(service.chain, stranger.address) == 0
    (later,) = (await post_claim(service, payment_id, f"{CHAIN}:{buyer.address}")).body["claims"]
    assert later["state"] == "confirmed"
    await check_ledger(service)


async def test_rejected_claim_leaves_the_money_for_the_operator(service, exchange):
    payment_id = await overpay(service, exchange)
    stranger, buyer = PlainSender(service.chain), PlainSender(service.chain)
    response = await post_claim(service, payment_id, f"{CHAIN}:{stranger.address}")
    claim_id = response.body["claims"][0]["claimId"]
    for _ in range(2):
        rejected = await decide(service, payment_id, claim_id, "reject")
        assert (rejected.status, rejected.body["state"]) == (200, "rejected")
    (held,) = await list_held(service, payment_id)
    assert held.state == held_pb2.HELD_PAYMENT_STATE_HELD
    verdict = held_pb2.ResolveHeldPaymentRequest(
        held_id=held.held_id,
        verdict=held_pb2.HELD_PAYMENT_VERDICT_RETURN,
        note="the buyer showed the withdrawal",
        return_to=f"{CHAIN}:{buyer.address}",
    )
    async with open_operator(service.service) as operator:
        await operator.call("ResolveHeldPayment", verdict)
    await wait_until(
        lambda: count_returned(service, payment_id), 1, meanwhile=lambda: turn(service)
    )
    assert await read_tokens(service.chain, buyer.address) == EXCESS
    late = await post_claim(service, payment_id, f"{CHAIN}:{buyer.address}")
    assert late.refusal == (400, "invalid_state")
    await check_ledger(service)


async def test_payment_without_held_money_has_nothing_to_claim(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await pass_time(service, 1)
    buyer = PlainSender(service.chain)
    response = await post_claim(service, payment_id, f"{CHAIN}:{buyer.address}")
    assert response.refusal == (400, "invalid_state")
    path = f"/v1/payments/{payment_id}/deposit-claims"
    assert await service.rest.call("GET", path, service.rest.merchant) == {"claims": []}
    unknown = await decide(service, payment_id, "clm_none", "confirm")
    assert unknown.status == 404


async def test_claim_is_exported_and_erased_with_the_data_of_its_account(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await hold_claimable_money(service, payment_id, EXCESS)
    response = await post_claim(service, payment_id, CLAIM_ACCOUNT, message="I am Ada")
    (claimed,) = response.body["claims"]
    home = service.service.home

    async def run(command):
        with home.announce({"operator": service.service.grpc.operator_target}):
            return await asyncio.to_thread(
                run_florin, "customers", command, CLAIM_ACCOUNT, home=home.path
            )

    exported = json.loads((await run("export")).out)
    (claim,) = exported["depositClaims"]
    assert claim.pop("createdAt")
    assert claim == {
        "paymentId": payment_id,
        **claimed,
        "message": "I am Ada",
        "decidedAt": None,
    }
    assert [payment["paymentId"] for payment in exported["payments"]] == [payment_id]
    assert (await run("erase")).out.startswith(
        "Erased: 0 offers, 0 wallet names, 0 sets of data about the buyer, 1 claims."
    )
    path = f"/v1/payments/{payment_id}/deposit-claims"
    listed = await service.rest.call("GET", path, service.rest.merchant)
    assert listed == {"claims": []}
