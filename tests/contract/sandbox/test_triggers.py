"""Controls of a test payment: reference ids that select an outcome, and a clock that moves."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from florin_server.app.home import SetupError
from florin_server.app.service import FlorinService
from florin_server.domain.payments.triggers import SandboxTrigger
from florin_server.rails.evm.settings import EvmChainSettings

from tests.support.service import make_settings, run_service
from tests.support.service_harness import CREATE, ORDER
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLOCK = "/v1/sandbox/clock"
ADVANCE = f"{CLOCK}/advance"
MONTH = 31 * 86400
ELSEWHERE = EvmChainSettings(
    chain_id=1,
    name="Elsewhere",
    rpc_url="http://127.0.0.1:9",
    settler="0x" + "11" * 20,
    treasury="0x" + "22" * 20,
)


def order(trigger: str) -> dict:
    return {**ORDER, "referenceId": f"florin_test:{trigger}"}


async def offered(desk, trigger: str, wallet: EvmTestWallet):
    payment_id = (await desk.rest.create(order(trigger)))["paymentId"]
    return payment_id, (await desk.rest.options(payment_id, [wallet.account]))["options"]


async def refused(desk, path: str, body: dict) -> tuple[int, str]:
    return (await desk.ask("POST", path, desk.rest.merchant, body)).refusal


@pytest.mark.parametrize(
    ("trigger", "status"),
    [
        ("succeeded", "succeeded"),
        ("failed", "failed"),
        ("expired", "expired"),
        ("cancelled", "cancelled"),
        ("stall", "processing"),
        ("succeeded:order-17", "succeeded"),
    ],
)
async def test_a_reference_id_brings_the_outcome_with_the_payment(desk, trigger, status):
    created = await desk.rest.create(order(trigger))
    seen = await desk.rest.detail(created["paymentId"])
    assert (seen["status"], seen["referenceId"]) == (status, f"florin_test:{trigger}")
    causes = desk.select(
        "SELECT cause FROM payment_event WHERE payment_id = ? ORDER BY version",
        created["paymentId"],
    )
    simulated = "simulate_" + trigger.partition(":")[0]
    assert [cause for (cause,) in causes] == ["created", simulated]


async def test_a_repeated_request_is_the_same_payment(desk):
    headers = {**desk.rest.merchant, "Idempotency-Key": "trigger-1"}
    first, again = [
        await desk.ask("POST", CREATE, headers, order("succeeded:once")) for _ in range(2)
    ]
    assert first.status == again.status == 201
    assert first.body == again.body


async def test_misspelled_sandbox_trigger_is_refused(desk):
    answer = await desk.ask("POST", CREATE, desk.rest.merchant, order("sucess"))
    assert answer.refusal == (400, "params_validation")
    (issue,) = answer.body["issues"]
    assert issue["field"] == "referenceId"
    assert all(trigger in issue["message"] for trigger in SandboxTrigger)


async def test_a_wallet_finds_nothing_to_pay_with(desk):
    _, options = await offered(desk, "no_options", EvmTestWallet())
    assert options == []


async def test_blocked_trigger_returns_sanctioned_user(desk):
    payment_id = (await desk.rest.create(order("blocked")))["paymentId"]
    path = f"/v1/gateway/payment/{payment_id}/options"
    answer = await desk.ask("POST", path, desk.rest.wallet, {"accounts": [EvmTestWallet().account]})
    assert answer.refusal == (451, "sanctioned_user")


async def test_a_quote_is_over_before_the_wallet_confirms(desk):
    wallet = EvmTestWallet()
    payment_id, (option,) = await offered(desk, "quote_expired", wallet)
    outputs = wallet.execute_all(option)
    body = {"optionId": option["id"], "results": [{"type": "walletRpc", "data": outputs}]}
    path = f"/v1/gateway/payment/{payment_id}/confirm"
    answer = await desk.ask("POST", path, desk.rest.wallet, body)
    assert answer.refusal == (409, "quote_expired")
    assert (await desk.rest.detail(payment_id))["status"] == "requires_action"


async def test_a_confirmed_payment_is_declined_and_nothing_moves(desk):
    wallet = EvmTestWallet()
    payment_id, (option,) = await offered(desk, "declined", wallet)
    before = await desk.chain.balance(wallet.address)
    confirmed = await desk.rest.confirm(payment_id, option["id"], wallet.execute_all(option))
    assert (confirmed["status"], confirmed["failureCode"]) == ("failed", "declined_user")
    assert await desk.chain.balance(wallet.address) == before > 0


async def test_a_live_payment_takes_no_lever(desk):
    live = await desk.tenant(live=True)
    created = await desk.ask("POST", CREATE, live.headers, order("succeeded"))
    assert created.status == 201, created.text
    seen = await desk.ask("GET", f"/v1/payments/{created.body['paymentId']}", live.headers)
    assert seen.body["status"] == "requires_action"


async def test_advanced_clock_applies_to_payments_and_chain(desk):
    offer = await desk.offer()
    before = await desk.ask("GET", CLOCK, desk.rest.merchant)
    assert before.body["movable"] is True
    moved = await desk.ask("POST", ADVANCE, desk.rest.merchant, {"seconds": 3600})
    assert moved.status == 200, moved.text
    assert moved.body["now"] > before.body["now"]
    assert (await desk.rest.detail(offer.payment_id))["status"] == "expired"
    paid = await desk.offer()
    await desk.confirm(paid)
    assert (await desk.wait_ended(paid.payment_id))["status"] == "succeeded"


async def test_a_repeated_request_moves_the_time_once(desk):
    headers = {**desk.rest.merchant, "Idempotency-Key": "once"}
    first, again = [await desk.ask("POST", ADVANCE, headers, {"seconds": 60}) for _ in range(2)]
    assert first.body == again.body
    now = await desk.ask("GET", CLOCK, desk.rest.merchant)
    assert now.body["now"] == first.body["now"]


@pytest.mark.parametrize("seconds", [0, -1, MONTH + 1, None, "60"])
async def test_clock_advance_out_of_range_is_refused(desk, seconds):
    assert await refused(desk, ADVANCE, {"seconds": seconds}) == (400, "params_validation")


async def test_a_live_key_moves_nothing(desk):
    live = await desk.tenant(live=True)
    answer = await desk.ask("POST", ADVANCE, live.headers, {"seconds": 60})
    assert answer.refusal == (403, "not_sandbox_api_key")


async def test_advanced_clock_survives_a_restart_and_wakes_sleepers(tmp_path):
    async with run_service(tmp_path) as service:
        waited = asyncio.create_task(service.app.clock.sleep(86_400))
        before_us = service.app.clock.now_us()
        await advance(service, 86_400)
        async with asyncio.timeout(5):
            await waited
        assert service.app.clock.now_us() - before_us >= 86_400_000_000
    async with run_service(tmp_path) as service:
        assert service.app.clock.now_us() - before_us >= 86_400_000_000


async def test_an_installation_whose_time_was_moved_takes_no_real_chain(tmp_path):
    async with run_service(tmp_path) as service:
        await advance(service, 60)
    with pytest.raises(SetupError, match="tests moved the clock"):
        await FlorinService.start(make_settings(tmp_path, chains=(ELSEWHERE,)))


async def test_where_there_is_a_real_chain_time_is_not_moved(tmp_path):
    async with run_service(tmp_path, chains=(ELSEWHERE,), demo=True) as service:
        assert await advance(service, 60) == (400, "invalid_state")


async def test_operator_may_disable_the_sandbox_clock(tmp_path):
    async with run_service(tmp_path, sandbox_clock=False) as service:
        assert await advance(service, 60) == (400, "invalid_state")


async def advance(service: FlorinService, seconds: int) -> tuple[int, str]:
    """Advance the time over REST, as the demo merchant's back end."""
    env = service.home.read_demo_env()
    headers = {"Api-Key": env["FLORIN_PARTNER_KEY"], "Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(service.http_url, headers=headers) as session,
        session.post(ADVANCE, json={"seconds": seconds}) as answer,
    ):
        return answer.status, (await answer.json()).get("code", "")
