"""Refunds to buyers and payouts to merchants, run over REST and checked by final balances."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2, system_pb2

from tests.support.api import ApiCallError
from tests.support.installation import open_operator
from tests.support.operator import block, check_ledger, get_relayer, get_treasury
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    ETHER,
    EUR,
    EURO,
    FEE,
    GBP,
    PRICE,
    USD,
    WEI,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 150_000_00  # more dollars than the treasury begins with


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("payouts") / "home"
    rates = {ETHER: {"GBP": "2500.00"}}
    async with open_service(home, rates=rates, fee_fixed=7, fee_basis_points=100) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> PayoutMerchant:
    return PayoutMerchant(desk, await desk.tenant())


async def books(desk: ServiceHarness) -> None:
    await check_ledger(desk)


# refunds


async def test_a_buyer_is_whole_again_though_the_merchant_and_the_fee_had_their_share(desk, shop):
    merchant, wallet = "0x" + "5a" * 20, EvmTestWallet()
    await shop.set_destination(f"erc20:{DOLLAR}", merchant)
    await wait_faucet_booked(desk, wallet)
    held, treasury = await desk.chain.balance(wallet.address), await get_treasury(desk, CHAIN)
    float_ = await desk.chain.balance(treasury)
    payment_id = await shop.create_paid_payment(wallet, USD)
    assert await desk.chain.balance(wallet.address) == held - PRICE
    assert await desk.chain.balance(merchant) == PRICE - FEE
    assert await desk.chain.balance(treasury) == float_ + FEE
    refund = await shop.refund(payment_id)
    assert await desk.chain.balance(wallet.address) == held
    assert await desk.chain.balance(merchant) == PRICE - FEE
    assert await desk.chain.balance(treasury) == float_ + FEE - PRICE
    receipt = await desk.chain.ask("eth_getTransactionReceipt", refund["txId"])
    assert receipt["from"].lower() == treasury
    assert treasury != await get_relayer(desk, CHAIN)
    # the merchant carries all of it
    assert await shop.get_owed(f"erc20:{DOLLAR}") == -PRICE
    await books(desk)
    path = "/v1/merchants/payments"
    (listed,) = (await desk.rest.call("GET", path, shop.tenant.headers))["data"]
    amounts = {name: refund[name] for name in ("amount", "paymentAmount")}
    assert {**listed["refund"], **amounts} == refund
    with pytest.raises(ApiCallError) as caught:
        await shop.ask(payment_id)
    assert (caught.value.http, caught.value.code) == (409, "already_refunded")


async def test_money_that_the_treasury_keeps_for_a_merchant_goes_back(desk, shop):
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    held = await desk.chain.balance(wallet.address)
    payment_id = await shop.create_paid_payment(wallet, USD)
    assert await shop.get_owed(f"erc20:{DOLLAR}") == PRICE - FEE
    await shop.refund(payment_id)
    assert await desk.chain.balance(wallet.address) == held
    assert await shop.get_owed(f"erc20:{DOLLAR}") == -FEE
    await books(desk)


async def test_a_token_that_returns_nothing_goes_back(desk, shop):
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    held = await desk.chain.balance(wallet.address, EURO)
    payment_id = await shop.create_paid_payment(wallet, EUR)
    assert await desk.chain.balance(wallet.address, EURO) == held - PRICE
    refund = await shop.refund(payment_id)
    assert refund["amount"]["display"]["assetSymbol"] == "tEUR"
    assert await desk.chain.balance(wallet.address, EURO) == held
    await books(desk)


async def test_coin_goes_back_at_the_rate_that_it_came_at(desk, shop):
    wallet = EvmTestWallet()
    payment_id = await shop.create_paid_payment(wallet, GBP)
    held = await desk.chain.coin(wallet.address)
    refund = await shop.refund(payment_id)
    assert refund["amount"]["value"] == str(WEI)
    assert await desk.chain.coin(wallet.address) == held + WEI
    await books(desk)


async def test_a_treasury_that_is_short_is_filled_and_pays(desk, shop):
    await shop.set_destination(f"erc20:{DOLLAR}", "0x" + "5b" * 20)
    wallet, treasury = EvmTestWallet(), await get_treasury(desk, CHAIN)
    payment_id = await shop.create_paid_payment(wallet, {"unit": "iso4217/USD", "value": str(MANY)})
    held, price = await desk.chain.balance(wallet.address), MANY * 10_000
    refund_id = (await shop.ask(payment_id))["refundId"]
    assert "the treasury" in await shop.wait_problem(refund_id)
    assert (await shop.get_detail(payment_id))["status"] == "pending"
    async with open_operator(desk.service) as operator:
        status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        assert not status.chains[0].healthy
        assert "payouts waiting: 1, because the treasury" in status.chains[0].problem
    assert await desk.chain.balance(wallet.address) == held
    # its former balance stays for later payouts
    float_ = await desk.chain.balance(treasury)
    gift = {"accounts": [treasury], "tokens": [DOLLAR], "tokenUnits": hex(price + float_)}
    await desk.chain.ask("florin_faucet", gift)
    desk.clock.advance(60)
    refund = await desk.wait_refunded(payment_id, shop.tenant.headers)
    assert refund["status"] == "succeeded"
    assert await desk.chain.balance(wallet.address) == held + price
    await books(desk)


async def test_a_blocked_payer_is_not_refunded(desk, shop):
    wallet = EvmTestWallet()
    payment_id = await shop.create_paid_payment(wallet, USD)
    held = await desk.chain.balance(wallet.address)
    await block(desk, wallet.address)
    refund_id = (await shop.ask(payment_id))["refundId"]
    assert await shop.wait_problem(refund_id) == "its destination is blocked"
    assert (await shop.get_detail(payment_id))["status"] == "pending"
    # the operator ends it
    async with open_operator(desk.service) as operator:
        for outcome, refusal in (
            (payout_pb2.PAYOUT_OUTCOME_PAID, "invalid_state"),
            (payout_pb2.PAYOUT_OUTCOME_NOT_PAID, "invalid_state"),
            (payout_pb2.PAYOUT_OUTCOME_UNSPECIFIED, "params_validation"),
            (7, "params_validation"),
        ):
            resolve_payout_request = payout_pb2.ResolvePayoutRequest(
                payout_id=refund_id, outcome=outcome
            )
            with pytest.raises(ApiCallError) as caught:
                await operator.call("ResolvePayout", resolve_payout_request)
            assert caught.value.code == refusal
        request = payout_pb2.RefusePayoutRequest(payout_id=refund_id)
        assert (await operator.call("RefusePayout", request)).status == (
            payout_pb2.PAYOUT_STATUS_REFUSED
        )
        with pytest.raises(ApiCallError) as caught:
            await operator.call("RefusePayout", request)
        assert (caught.value.http, caught.value.code) == (400, "invalid_state")
    refund = await desk.wait_refunded(payment_id, shop.tenant.headers)
    assert refund["status"] == "failed"
    assert "txId" not in refund
    desk.clock.advance(3600)
    assert await desk.chain.balance(wallet.address) == held
    with pytest.raises(ApiCallError) as caught:
        await shop.ask(payment_id)
    assert caught.value.code == "already_refunded"


async def test_requests_that_race_pay_once(desk, shop):
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    held = await desk.chain.balance(wallet.address)
    payment_id = await shop.create_paid_payment(wallet, USD)
    results = await asyncio.gather(
        *(shop.ask(payment_id) for _ in range(10)), return_exceptions=True
    )
    assert sum(not isinstance(item, ApiCallError) for item in results) == 1
    await desk.wait_refunded(payment_id, shop.tenant.headers)
    assert await desk.chain.balance(wallet.address) == held
    assert desk.select("SELECT count(*) FROM payout WHERE payment_id = ?", payment_id) == [(1,)]


async def test_refund_requested_while_the_chain_is_down_succeeds_later(desk, shop):
    wallet = EvmTestWallet()
    payment_id = await shop.create_paid_payment(wallet, USD)
    held = await desk.chain.balance(wallet.address)
    down = {"kind": "answer", "effect": "error", "times": 1_000_000}
    for method in ("eth_estimateGas", "eth_sendRawTransaction", "eth_getBlockByNumber"):
        await desk.chain.ask("florin_fault", {**down, "method": method})
    refund_id = (await shop.ask(payment_id))["refundId"]
    assert await shop.wait_problem(refund_id)
    desk.clock.advance(60)
    assert (await shop.get_detail(payment_id))["status"] == "pending"
    await desk.chain.ask("florin_fault", {"kind": "clear"})
    desk.clock.advance(60)
    assert (await desk.wait_refunded(payment_id, shop.tenant.headers))["status"] == "succeeded"
    assert await desk.chain.balance(wallet.address) == held + PRICE


async def test_a_refund_that_is_on_its_way_says_so(desk, shop):
    payment_id = await shop.create_paid_payment(EvmTestWallet(), USD)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await shop.ask(payment_id)

    async def status() -> str:
        return (await shop.get_detail(payment_id))["status"]

    await wait_until(status, "processing")
    refund = await shop.get_detail(payment_id)
    assert refund["txId"].startswith("0x")
    assert "completedAt" not in refund
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.ask("evm_mine")
    done = await desk.wait_refunded(payment_id, shop.tenant.headers)
    assert (done["status"], done["txId"]) == ("succeeded", refund["txId"])


# balances owed to merchants


async def test_merchant_is_paid_its_balance(desk, shop):
    asset, place = f"{CHAIN}/erc20:{DOLLAR}", "0x" + "5c" * 20
    for _ in range(2):
        await shop.create_paid_payment(EvmTestWallet(), USD)
    owed, treasury = 2 * (PRICE - FEE), await get_treasury(desk, CHAIN)
    assert await shop.get_owed(f"erc20:{DOLLAR}") == owed
    merchant = {"merchant_id": shop.tenant.merchant.id, "asset": asset}
    async with open_operator(desk.service) as operator:

        async def refusal(**changes: str) -> str:
            request = payout_pb2.CreatePayoutRequest(**{**merchant, **changes})
            with pytest.raises(ApiCallError) as caught:
                await operator.call("CreatePayout", request)
            return caught.value.code

        assert await refusal() == "params_validation"  # no address to send it to
        await shop.set_destination(f"erc20:{DOLLAR}", place)
        assert await refusal(amount=str(owed + 1)) == "params_validation"
        assert await refusal(amount="-1") == "params_validation"
        assert await refusal(asset="dollars") == "params_validation"
        assert await refusal(merchant_id="mrch_unknown") == "merchant_not_found"
        held = await desk.chain.balance(treasury)
        part = payout_pb2.CreatePayoutRequest(**merchant, amount="1000000")
        rest = payout_pb2.CreatePayoutRequest(**merchant)
        created = [await operator.call("CreatePayout", request) for request in (part, rest)]
        assert [int(each_item.amount) for each_item in created] == [1_000_000, owed - 1_000_000]
        assert await refusal(amount="1") == "params_validation"
        await wait_until(lambda: shop.get_owed(f"erc20:{DOLLAR}"), 0)
        assert await desk.chain.balance(place) == owed
        assert await desk.chain.balance(treasury) == held - owed
        listed = payout_pb2.ListPayoutsRequest(all=True)
        found_payouts = (await operator.call("ListPayouts", listed)).payouts
        done = {each_item.payout_id: each_item for each_item in found_payouts}
        for item in created:
            assert done[item.payout_id].status == payout_pb2.PAYOUT_STATUS_DONE
            assert done[item.payout_id].account == f"{CHAIN}:{place}"
            assert done[item.payout_id].tx_id.startswith("0x")
        unknown = payout_pb2.RefusePayoutRequest(payout_id="pout_unknown")
        with pytest.raises(ApiCallError):
            await operator.call("RefusePayout", unknown)
    await books(desk)


async def test_the_treasury_can_be_paused(desk, shop):
    wallet = EvmTestWallet()
    executor_id = f"{CHAIN}:{await get_treasury(desk, CHAIN)}"
    payment_id = await shop.create_paid_payment(wallet, USD)
    held = await desk.chain.balance(wallet.address)
    async with open_operator(desk.service) as operator:
        pause = system_pb2.PauseExecutorRequest(executor_id=executor_id)
        assert (await operator.call("PauseExecutor", pause)).paused
        await shop.ask(payment_id)
        # payments are settled all the same
        await shop.create_paid_payment(EvmTestWallet(), USD)
        assert (await shop.get_detail(payment_id))["status"] == "pending"
        assert await desk.chain.balance(wallet.address) == held
        resume = system_pb2.ResumeExecutorRequest(executor_id=executor_id)
        assert not (await operator.call("ResumeExecutor", resume)).paused
    assert (await desk.wait_refunded(payment_id, shop.tenant.headers))["status"] == "succeeded"
