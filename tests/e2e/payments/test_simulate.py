"""A partner simulates every outcome, without a wallet and without a chain."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from tests.support.api import ApiCallError, RestApi
from tests.support.chain import ChainClient
from tests.support.payment_flow import ORDER, PRICE, follow_payment
from tests.support.service import run_service, wait_open_responses
from tests.support.service_harness import ServiceHarness
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

OUTCOMES = ("succeeded", "failed", "expired", "cancelled", "stall")
ENDED = ("succeeded", "failed", "expired", "cancelled")
STATES = ("requires_action", "processing", "stalled", *ENDED)
# the result of each outcome in each state; None is a refusal
EXPECTED = {
    ("requires_action", outcome): "processing" if outcome == "stall" else outcome
    for outcome in OUTCOMES
}
for busy in ("processing", "stalled"):
    EXPECTED |= {(busy, item): item for item in ("succeeded", "failed", "expired")}
    EXPECTED |= {(busy, "stall"): "processing"}
EXPECTED |= {(state, state): state for state in ENDED}


@pytest.fixture(params=["rest", "grpc"])
def side(request, desk):
    return getattr(desk, request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def no_blocks(desk):
    """Keep confirmed payments in processing: the chain takes transactions and mines none."""
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})


async def bring(desk: ServiceHarness, state: str) -> str:
    """Return a payment in a state that it reached without simulation, where that is possible."""
    if state == "processing":
        offer = await desk.offer()
        await desk.confirm(offer)
        return offer.payment_id
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    if state == "stalled":
        await desk.rest.simulate(payment_id, "stall")
    elif state == "cancelled":
        await desk.rest.merchant_cancel(payment_id)
    elif state != "requires_action":
        await desk.rest.simulate(payment_id, state)
    return payment_id


async def refusal(call) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


def causes(desk: ServiceHarness, payment_id: str) -> list[str]:
    rows = desk.select(
        "SELECT cause FROM payment_event WHERE payment_id = ? ORDER BY version", payment_id
    )
    return [cause for (cause,) in rows]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("state", STATES)
async def test_every_outcome_in_every_state(desk, side, state, outcome):
    payment_id = await bring(desk, state)
    before, history = await desk.rest.detail(payment_id), causes(desk, payment_id)
    expected = EXPECTED.get((state, outcome))
    if expected is None:
        error = await refusal(side.simulate(payment_id, outcome))
        assert (error.http, error.code) == (400, "invalid_state")
        deed = "cancelled" if outcome == "cancelled" else "simulated"
        assert error.message == f"Payment is {before['status']} and cannot be {deed}"
    else:
        answer = await side.simulate(payment_id, outcome)
        assert answer == await desk.rest.status(payment_id)
        assert answer["status"] == expected
        assert await side.simulate(payment_id, outcome) == answer
    after = await desk.rest.detail(payment_id)
    moved = expected is not None and (state, outcome) not in {
        *((text, text) for text in ENDED),
        ("stalled", "stall"),
    }
    # the first stall of a payment that is being settled changes its result
    assert after["version"] == before["version"] + moved
    if not moved:
        assert after == before
    assert causes(desk, payment_id) == history + [f"simulate_{outcome}"] * moved


async def test_simulated_success_has_a_test_transaction_and_no_buyer(desk, side):
    payment_id = await bring(desk, "requires_action")
    answer = await side.simulate(payment_id, "succeeded")
    assert answer["info"]["txId"] == f"test:{payment_id}"
    assert answer["info"]["optionAmount"]["unit"] == f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    assert answer["info"]["optionAmount"]["value"] == str(PRICE)
    detail = await side.detail(payment_id)
    assert detail["info"] == answer["info"]
    # no buyer paid and no money reached the merchant
    assert detail["buyer"] is None
    assert detail["settlement"] == {"successful": None}
    offered = await side.options(payment_id, [EvmTestWallet().account])
    assert offered["options"] == []
    assert offered["resultInfo"] == answer["info"]


async def test_simulated_success_of_a_bound_payment_pays_its_bound_option(desk, side):
    payment_id = await bring(desk, "processing")
    # the option counts, not the registry's present values
    answer = await side.simulate(payment_id, "succeeded")
    detail = await side.detail(payment_id)
    ((option_unit, value),) = desk.select(
        "SELECT asset, value FROM payment_option WHERE payment_id = ?", payment_id
    )
    assert answer["info"]["optionAmount"]["unit"] == f"caip19/{option_unit}"
    assert answer["info"]["optionAmount"]["value"] == value
    assert detail["buyer"]["accountCaip10"].startswith("eip155:31337:0x")


@pytest.mark.parametrize("unit", ["iso4217/GBP", "caip19"])
async def test_simulated_success_pays_in_the_requested_unit(desk, side, unit):
    """No asset pays pounds here; a token named in the request is used itself."""
    if unit == "caip19":
        unit = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    # a currency that no asset pays is accepted only with an outcome
    order = {"amount": {"unit": unit, "value": "777"}, "referenceId": "florin_test:stall"}
    if unit.startswith("caip19"):
        del order["referenceId"]
    payment_id = (await side.create(order))["paymentId"]
    amount = (await side.simulate(payment_id, "succeeded"))["info"]["optionAmount"]
    assert (amount["unit"], amount["value"]) == (unit, "777")
    await side.refund(payment_id)
    assert (await side.detail(payment_id))["refund"]["amount"] == amount


async def test_the_other_outcomes_look_like_the_real_ones(desk, side):
    failed, expired, cancelled, stalled = [
        await bring(desk, state) for state in ("failed", "expired", "requires_action", "stalled")
    ]
    assert await side.status(failed) == {
        "status": "failed",
        "isFinal": True,
        "info": None,
        "failureCode": None,
    }
    assert await side.status(expired) == {"status": "expired", "isFinal": True, "info": None}
    assert await side.simulate(cancelled, "cancelled") == {
        "status": "cancelled",
        "isFinal": True,
        "info": None,
    }
    detail = await side.detail(cancelled)
    assert detail["cancelledReason"] == "cancelled_by_merchant"
    assert detail["cancelledAt"] == detail["lastUpdatedAt"]
    assert await side.status(stalled) == {
        "status": "processing",
        "isFinal": False,
        "pollInMs": 2000,
        "info": None,
    }
    for payment_id, code in ((failed, "invalid_state"), (expired, "payment_expired")):
        error = await refusal(side.confirm(payment_id, "x", ["0x" + "11" * 65]))
        assert error.code == code
    error = await refusal(side.confirm(stalled, "x", ["0x" + "11" * 65]))
    assert (error.http, error.code) == (409, "idempotency_conflict")


async def test_poll_and_watch_receive_a_simulated_outcome(desk, side):
    payment_id = await bring(desk, "requires_action")
    watch = asyncio.create_task(follow_payment(side, payment_id))
    poll = asyncio.create_task(
        desk.ask("GET", f"/v1/payments/{payment_id}/status?maxPollMs=20000", desk.rest.merchant)
    )
    await wait_open_responses(desk.service, 2)
    await side.simulate(payment_id, "stall")
    assert (await asyncio.wait_for(poll, 10)).body["status"] == "processing"
    await side.simulate(payment_id, "succeeded")
    seen = await asyncio.wait_for(watch, 10)
    # a watcher may skip a state, never the last one
    assert [seen[0]["status"], seen[-1]["status"]] == ["requires_action", "succeeded"]
    assert (seen[0]["version"], seen[-1]["version"]) == (0, 2)


async def test_outcomes_that_race(desk):
    payment_id = await bring(desk, "requires_action")
    calls = [desk.grpc.simulate(payment_id, text) for text in ENDED * 3]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    done = {answer["status"] for answer in answers if isinstance(answer, dict)}
    assert len(done) == 1
    detail = await desk.rest.detail(payment_id)
    assert (detail["status"], detail["version"]) == (*done, 1)


async def test_a_payment_whose_time_is_over_is_expired(desk, side):
    payment_id = (await desk.rest.create({**ORDER, "expiresAt": desk.now + 1}))["paymentId"]
    desk.clock.advance(1)
    error = await refusal(side.simulate(payment_id, "succeeded"))
    assert error.message == "Payment is expired and cannot be simulated"
    assert (await side.simulate(payment_id, "expired"))["status"] == "expired"
    assert (await side.detail(payment_id))["version"] == 1


async def test_retried_simulation_returns_its_first_result(desk, side):
    payment_id = await bring(desk, "requires_action")
    first = await side.simulate(payment_id, "stall", key=f"s-{payment_id}")
    await side.simulate(payment_id, "failed")
    # a new request would be refused now
    for other in (side, desk.rest, desk.grpc):
        assert await other.simulate(payment_id, "stall", key=f"s-{payment_id}") == first
    error = await refusal(side.simulate(payment_id, "failed", key=f"s-{payment_id}"))
    assert (error.http, error.code) == (409, "idempotency_conflict")


async def test_payments_of_any_merchant_of_the_partner(desk, side):
    """The Merchant-Id is ignored: it may be another merchant's, or unknown."""
    payment_id = await bring(desk, "requires_action")
    path = f"/v1/sandbox/payments/{payment_id}/simulate"
    for merchant_id in ("mrch_unknown", (await desk.tenant()).merchant.id):
        headers = {"Api-Key": desk.env["FLORIN_PARTNER_KEY"], "Merchant-Id": merchant_id}
        answer = await desk.ask("POST", path, headers, {"outcome": "stall"})
        assert answer.status == 200


async def test_only_a_test_merchant_key_may_simulate(desk):
    tenant, live = await desk.tenant(), await desk.tenant(live=True)
    payment_id = await bring(desk, "requires_action")
    path, body = f"/v1/sandbox/payments/{payment_id}/simulate", {"outcome": "succeeded"}
    _, wallet_key = await desk.key(None)
    _, reader = await desk.key(tenant.partner.id, scopes=("read",))
    for headers, result in (
        ({}, (401, "missing_auth_headers")),
        ({"Merchant-Id": tenant.merchant.id}, (401, "missing_api_key")),
        (desk.rest.wallet, (401, "missing_merchant_api_key")),
        ({"Api-Key": wallet_key}, (403, "forbidden")),
        ({"Api-Key": reader}, (403, "forbidden")),
        (live.headers, (403, "not_sandbox_api_key")),
        (tenant.headers, (404, "payment_not_found")),
    ):
        assert (await desk.ask("POST", path, headers, body)).refusal == result
    unknown = "/v1/sandbox/payments/pay_unknown/simulate"
    assert (await desk.ask("POST", unknown, desk.rest.merchant, body)).refusal == (
        404,
        "payment_not_found",
    )
    assert (await desk.rest.detail(payment_id))["version"] == 0


async def test_a_live_payment_cannot_be_simulated(desk):
    """Its partner's test key does not see it either."""
    live = await desk.tenant(live=True)
    _, test_key = await desk.key(live.partner.id)
    created = await desk.ask("POST", "/v1/payments", live.headers, ORDER)
    path = f"/v1/sandbox/payments/{created.body['paymentId']}/simulate"
    body = {"outcome": "succeeded"}
    assert (await desk.ask("POST", path, live.headers, body)).refusal == (
        403,
        "not_sandbox_api_key",
    )
    assert (await desk.ask("POST", path, {"Api-Key": test_key}, body)).refusal == (
        404,
        "payment_not_found",
    )


@pytest.mark.parametrize("body", [{}, {"outcome": None}, {"outcome": "won"}, {"outcome": 1}, []])
async def test_a_body_without_an_outcome(desk, body):
    path = f"/v1/sandbox/payments/{await bring(desk, 'requires_action')}/simulate"
    answer = await desk.ask("POST", path, desk.rest.merchant, body)
    assert answer.refusal == (400, "params_validation")


# concurrent changes by the chain, on services of their own


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "expired", "stall"])
async def test_a_simulated_payment_is_never_settled(desk, tmp_path, outcome):
    """Neither a proof from the chain nor a restart changes the simulated result."""
    home = tmp_path / "home"
    async with run_service(home) as service:
        api, chain = clients(desk, service)
        await chain.ask("florin_fault", {"kind": "mining", "paused": True})
        paid, stored = await confirmed(api), await confirmed(api)
        result = await api.simulate(paid, outcome)
        await chain.ask("florin_fault", {"kind": "mining", "paused": False})
        # the other one was sent with it or after it: when it has ended, the proof was seen
        assert (await asyncio.wait_for(follow_payment(api, stored), 20))[-1][
            "status"
        ] == "succeeded"
        assert await api.status(paid) == result
        version = (await api.detail(paid))["version"]
    async with run_service(home) as service:
        api, _ = clients(desk, service)
        again = await confirmed(api)
        assert (await asyncio.wait_for(follow_payment(api, again), 20))[-1]["status"] == "succeeded"
        assert await api.status(paid) == result
        assert (await api.detail(paid))["version"] == version
        if outcome == "stall":
            assert (await api.simulate(paid, "failed"))["status"] == "failed"


def clients(desk: ServiceHarness, service: Any) -> tuple[RestApi, ChainClient]:
    env = service.home.read_demo_env()
    chain = ChainClient(desk.session, env["FLORIN_EVM_RPC_URL"], "")
    return RestApi(desk.session, env["FLORIN_BASE_URL"], env), chain


async def confirmed(api: RestApi) -> str:
    wallet = EvmTestWallet()
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    return payment_id
