"""Confirms that do not pay: each answered as documented, and the buyer's money untouched."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.base.clock import TestClock

from tests.support.api import ApiCallError, RestApi
from tests.support.payment_flow import ORDER, follow_payment
from tests.support.service import run_service
from tests.support.wallet import EvmTestWallet, get_typed_data

# parts of the typed data, each with a value that was not offered
OTHER_TERMS = [
    ("message", "value", "0x1"),
    ("message", "to", "0x" + "22" * 20),
    ("message", "nonce", "0x" + "ab" * 32),
    ("message", "validBefore", "0xffffffff"),
    ("domain", "chainId", "0x1"),
    ("domain", "verifyingContract", "0x" + "33" * 20),
    ("domain", "version", "1"),
]


@pytest.fixture
async def offer(api, wallet, funded):
    """Return a payment and its one option."""
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    return payment_id, option


@pytest.fixture
async def untouched(chain, wallet, offer):
    """Assert at the end that the buyer's balance is unchanged and the payment can be paid."""
    before = await chain.balance(wallet.address)
    yield
    assert await chain.balance(wallet.address) == before > 0


async def refused(call) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


def stranger(option):
    """Return the signature of another key."""
    return EvmTestWallet().sign(get_typed_data(option["actions"][0]))


async def assert_payable(api, wallet, offer):
    payment_id, option = offer
    assert (await api.status(payment_id))["status"] == "requires_action"
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    assert (await asyncio.wait_for(follow_payment(api, payment_id), 20))[-1][
        "status"
    ] == "succeeded"


@pytest.mark.both_chains
async def test_signature_of_a_stranger_gets_signature_mismatch(api, offer, untouched):
    payment_id, option = offer
    error = await refused(api.confirm(payment_id, option["id"], [stranger(option)]))
    assert (error.http, error.code) == (400, "invalid_params")
    assert error.details["reason"] == "signature_mismatch"
    assert (await api.status(payment_id))["status"] == "requires_action"


@pytest.mark.both_chains
async def test_a_signature_over_something_else(api, wallet, offer, untouched):
    payment_id, option = offer
    for part, member, value in OTHER_TERMS:
        typed_data = get_typed_data(option["actions"][0])
        typed_data[part][member] = value
        error = await refused(api.confirm(payment_id, option["id"], [wallet.sign(typed_data)]))
        assert (error.http, error.code) == (400, "invalid_params"), member
        assert error.details["reason"] == "signature_mismatch", member


@pytest.mark.both_chains
async def test_an_authorization_of_another_payment(api, wallet, offer, untouched):
    payment_id, option = offer
    other_id = (await api.create(ORDER))["paymentId"]
    (other,) = (await api.options(other_id, [wallet.account]))["options"]
    error = await refused(api.confirm(payment_id, option["id"], wallet.execute_all(other)))
    assert error.details["reason"] == "signature_mismatch"


@pytest.mark.both_chains
async def test_an_authorization_that_was_used(api, wallet, chain, merchant_address, offer):
    payment_id, option = offer
    outputs = wallet.execute_all(option)
    await api.confirm(payment_id, option["id"], outputs)
    await asyncio.wait_for(follow_payment(api, payment_id), 20)
    paid = await chain.balance(merchant_address)
    other_id = (await api.create(ORDER))["paymentId"]
    (other,) = (await api.options(other_id, [wallet.account]))["options"]
    error = await refused(api.confirm(other_id, other["id"], outputs))
    assert error.details["reason"] == "signature_mismatch"
    different = await refused(api.confirm(payment_id, option["id"], ["0x" + "11" * 65]))
    assert (different.http, different.code) == (409, "idempotency_conflict")
    assert await chain.balance(merchant_address) == paid


@pytest.mark.parametrize("outputs", [[], ["0x" + "11" * 65, "0x" + "11" * 65], ["0x" + "11" * 32]])
async def test_results_that_do_not_match_fail_the_payment(api, offer, untouched, outputs):
    payment_id, option = offer
    if not outputs:
        # over gRPC an empty list equals no list: the body is incomplete
        outputs = ["0x" + "11" * 65] * 3
    answer = await api.confirm(payment_id, option["id"], outputs)
    assert answer["status"] == "failed"
    assert answer["isFinal"] is True
    assert answer["failureCode"] is None
    assert await api.confirm(payment_id, option["id"], outputs) == answer
    error = await refused(api.confirm(payment_id, option["id"], ["0x" + "11" * 65]))
    assert (error.http, error.code) == (400, "invalid_state")


async def test_noise_does_not_kill_a_payment(api, offer, untouched):
    payment_id, option = offer
    for output in ("", "rubbish", "0x", "0x12", 7, True, ["0x"]):
        error = await refused(api.confirm(payment_id, option["id"], [output]))
        assert (error.http, error.code) == (400, "invalid_params"), output
        assert error.details["reason"] == "unreadable_output", output
    assert (await api.status(payment_id))["status"] == "requires_action"


async def test_an_unknown_option(api, wallet, offer, untouched):
    payment_id, _ = offer
    error = await refused(
        api.confirm(payment_id, "00000000-0000-0000-0000-000000000000", ["0x" + "11" * 65])
    )
    assert (error.http, error.code) == (400, "invalid_params")


async def test_an_unknown_payment(api, offer, untouched):
    _, option = offer
    error = await refused(api.confirm("pay_unknown", option["id"], ["0x" + "11" * 65]))
    assert (error.http, error.code) == (404, "payment_not_found")


async def test_a_cancelled_payment(api, wallet, offer, untouched):
    payment_id, option = offer
    await api.cancel(payment_id)
    error = await refused(api.confirm(payment_id, option["id"], wallet.execute_all(option)))
    assert (error.http, error.code) == (400, "invalid_state")


@pytest.mark.both_chains
async def test_the_funds_are_gone(api, wallet, chain, offer):
    payment_id, option = offer
    outputs = wallet.execute_all(option)
    # the buyer spends everything on another, more expensive payment first
    held = await chain.balance(wallet.address)
    dear = {"amount": {"unit": "iso4217/USD", "value": str(held // 10**4)}}
    dear_id = (await api.create(dear))["paymentId"]
    (big,) = (await api.options(dear_id, [wallet.account]))["options"]
    await api.confirm(dear_id, big["id"], wallet.execute_all(big))
    await asyncio.wait_for(follow_payment(api, dear_id), 20)
    error = await refused(api.confirm(payment_id, option["id"], outputs))
    assert (error.http, error.code) == (400, "invalid_params")
    assert error.details["reason"] == "insufficient_funds"
    assert (await api.status(payment_id))["status"] == "requires_action"


async def test_a_payment_whose_time_is_over(tmp_path, wallet, session):
    clock = TestClock(1_800_000_000_000_000)
    async with run_service(tmp_path / "home", clock=clock) as service:
        env = service.home.read_demo_env()
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        created = await api.create(ORDER)
        payment_id = created["paymentId"]
        (option,) = (await api.options(payment_id, [wallet.account]))["options"]
        outputs = wallet.execute_all(option)
        states = api.watch(payment_id)
        assert (await anext(states))["status"] == "requires_action"
        clock.advance(created["expiresAt"] - 1 - 1_800_000_000)
        assert (await api.status(payment_id))["status"] == "requires_action"
        clock.advance(1)
        error = await refused(api.confirm(payment_id, option["id"], outputs))
        assert (error.http, error.code) == (410, "payment_expired")
        last = await asyncio.wait_for(anext(states), 20)
        assert (last["status"], last["version"]) == ("expired", 1)
        assert [state async for state in states] == []
        for call in (
            api.options(payment_id, [wallet.account]),
            api.fetch(payment_id, option["id"]),
        ):
            assert (await refused(call)).http == 410
        assert (await api.info(payment_id))["status"] == "expired"
