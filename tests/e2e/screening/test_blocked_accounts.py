"""Accounts that the operator does not serve: they are refused without any detail."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin_server.settings import Settings
from pydantic import ValidationError

from tests.support.api import ApiCallError
from tests.support.operator import block as block_address
from tests.support.payment_flow import ORDER, follow_payment
from tests.support.service_harness import DEPLOYED, SPEC, open_service
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

# one in each spelling that a list may have
BARE, ON_ANOTHER_CHAIN, LOWER = EvmTestWallet(), EvmTestWallet(), EvmTestWallet()
LIST = (BARE.address, f"eip155:1:{ON_ANOTHER_CHAIN.address}", LOWER.address.lower())
BLOCKED = (BARE, ON_ANOTHER_CHAIN, LOWER)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("blocked")
    async with open_service(home, blocked_accounts=LIST) as desk:
        yield desk


@pytest.fixture(params=["rest", "grpc"])
def side(request, desk):
    return getattr(desk, request.param)


async def refusal(call) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("wallet", BLOCKED, ids=["bare", "another chain", "lower case"])
async def test_a_blocked_account_gets_no_options(desk, side, wallet):
    payment_id = (await side.create(ORDER))["paymentId"]
    good = EvmTestWallet().account
    for written in (
        wallet.account,
        wallet.account.lower(),
        f"eip155:31337:0x{wallet.address[2:].upper()}",
        # not a valid checksum, but the address is unambiguous
        f"eip155:31337:{wallet.address.swapcase().replace('0X', '0x')}",
        f"eip155:8453:{wallet.address}",
    ):
        for accounts in ([written], [good, written], [written, good, "rubbish"]):
            error = await refusal(side.options(payment_id, accounts))
            assert (error.http, error.code) == (451, "sanctioned_user")
            assert error.message == "This account cannot be served"
            assert (error.details, error.issues) == ({}, [])
    # the payment is unchanged, and other accounts can pay it
    assert (await side.detail(payment_id))["version"] == 0
    assert len((await side.options(payment_id, [good]))["options"]) == 1


async def test_sanctioned_user_is_refused_the_same_in_both_profiles(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    path = f"/v1/gateway/payment/{payment_id}/options"
    for profile in (SPEC, {}, DEPLOYED):
        headers = {**desk.rest.wallet, **profile}
        answer = await desk.ask("POST", path, headers, {"accounts": [BARE.account]})
        assert answer.refusal == (451, "sanctioned_user")
        assert set(answer.body) == {"code", "message", "requestId"}


async def test_text_that_is_no_account_is_skipped(desk, side):
    payment_id = (await side.create(ORDER))["paymentId"]
    noise = [
        "",
        "rubbish",
        BARE.address,
        f"eip155:31337:{BARE.address[:-1]}",
        f"eip155:31337:{BARE.address}0",
        f"EIP155:31337:{BARE.address}",
        f"solana:devnet:{BARE.address}",
        "eip155:31337:" + "x" * 128,
    ]
    offered = await side.options(payment_id, [*noise, EvmTestWallet().account])
    assert len(offered["options"]) == 1


async def test_the_payment_is_looked_at_first(desk, side):
    accounts = [BARE.account]
    unknown = await refusal(side.options("pay_unknown", accounts))
    assert (unknown.http, unknown.code) == (404, "payment_not_found")
    over = (await side.create({**ORDER, "expiresAt": desk.now + 1}))["paymentId"]
    desk.clock.advance(1)
    assert (await refusal(side.options(over, accounts))).code == "payment_expired"
    for outcome in ("succeeded", "failed", "cancelled", "stall"):
        payment_id = (await side.create(ORDER))["paymentId"]
        await side.simulate(payment_id, outcome)
        assert (await side.options(payment_id, accounts))["options"] == []
    answer = await desk.ask(
        "POST", "/v1/gateway/payment/nonsense/options", desk.rest.wallet, {"accounts": accounts}
    )
    assert (answer.status, answer.body["options"]) == (200, [])


@pytest.fixture
def late(desk):
    """Return a wallet that is blocked only after it got its options."""
    wallet = EvmTestWallet()
    return wallet, lambda: block_address(desk, wallet.address)


async def test_a_blocked_payer_is_declined(desk, side, late):
    wallet, block = late
    payment_id = (await side.create(ORDER))["paymentId"]
    (option,) = (await side.options(payment_id, [wallet.account]))["options"]
    held = await desk.chain.balance(wallet.address)
    outputs = wallet.execute_all(option)
    await block()
    answer = await side.confirm(payment_id, option["id"], outputs)
    assert answer == {
        "status": "failed",
        "isFinal": True,
        "info": None,
        "failureCode": "declined_user",
    }
    # bound: the same content is a poll, any other content comes too late
    assert await side.confirm(payment_id, option["id"], outputs) == answer
    error = await refusal(side.confirm(payment_id, option["id"], ["0x" + "11" * 65]))
    assert (error.http, error.code) == (400, "invalid_state")
    detail = await side.detail(payment_id)
    assert (detail["failureCode"], detail["buyer"], detail["version"]) == ("declined_user", None, 1)
    assert [s["status"] for s in await asyncio.wait_for(follow_payment(side, payment_id), 20)] == [
        "failed"
    ]
    assert await desk.chain.balance(wallet.address) == held


async def test_mismatched_output_of_a_blocked_payer_fails_and_noise_is_declined(desk, side, late):
    wallet, block = late
    offers = []
    for _ in range(2):
        payment_id = (await side.create(ORDER))["paymentId"]
        (option,) = (await side.options(payment_id, [wallet.account]))["options"]
        offers.append((payment_id, option["id"]))
    await block()
    answer = await side.confirm(*offers[0], ["0x" + "11" * 32])
    assert (answer["status"], answer["failureCode"]) == ("failed", None)
    answer = await side.confirm(*offers[1], ["rubbish"])
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("rubbish", "neither a CAIP-10 account nor an EVM address: 'rubbish'"),
        ("", "neither a CAIP-10 account nor an EVM address"),
        ("eip155:1:rubbish", "not an EVM address: 'rubbish'"),
        ("eip155:1", "not a CAIP-10 account id: 'eip155:1'"),
        ("0x" + "aB" * 20, "address has a wrong checksum"),
        (f"eip155:1:0x{'aB' * 20}", "address has a wrong checksum"),
    ],
)
async def test_a_list_with_a_mistake_is_refused_at_start(entry, message):
    with pytest.raises(ValidationError) as caught:
        Settings(blocked_accounts=(BARE.address, entry))
    ((fault),) = caught.value.errors()
    assert fault["loc"] == ("blocked_accounts", 1)
    assert message in fault["msg"]
