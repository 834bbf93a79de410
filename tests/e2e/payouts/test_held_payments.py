"""Payers who are blocked after they got their options, and still pay: the operator decides.

The buyer sends a transaction, or a stranger submits the buyer's signature; Florin sends nothing and
learns of it from the chain. Every test ends with exact books and with wallets that hold what is
booked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import held_pb2, payout_pb2, system_pb2, trace_pb2

from tests.support.api import ApiCallError
from tests.support.books import SETTINGS, get_balance, wait_exact
from tests.support.installation import OperatorStub, open_operator
from tests.support.late_money import (
    DOLLARS,
    get_send_actions,
    list_payouts,
    make_non_signing_wallet,
    submit_authorization,
)
from tests.support.payout_merchant import (
    DOLLAR,
    ETHER,
    FEE,
    GBP,
    PRICE,
    WEI,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.receipts import decode_claims, get_receipt
from tests.support.sanctions_import import import_list, remove_list
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = "0x" + "5e" * 20
WEI_FEE = 2_800_000_000 + WEI // 100  # seven millionths of a pound, and a percent
RELEASE = held_pb2.HELD_PAYMENT_VERDICT_RELEASE
RETURN = held_pb2.HELD_PAYMENT_VERDICT_RETURN
KEEP = held_pb2.HELD_PAYMENT_VERDICT_KEEP
STATES = {
    RELEASE: held_pb2.HELD_PAYMENT_STATE_RELEASED,
    RETURN: held_pb2.HELD_PAYMENT_STATE_RETURNED,
    KEEP: held_pb2.HELD_PAYMENT_STATE_KEPT,
}
VERDICTS = pytest.mark.parametrize("verdict", STATES, ids=["release", "return", "keep"])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("held") / "home", **SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> PayoutMerchant:
    return PayoutMerchant(desk, await desk.tenant())


@pytest_asyncio.fixture(loop_scope="module")
async def operator(desk):
    async with open_operator(desk.service) as operator:
        yield operator


@dataclass
class Paid:
    """A payment that was paid without Florin, by a payer who was blocked before."""

    payment_id: str
    wallet: EvmTestWallet
    tx_hash: str
    asset: str
    value: int
    fee: int


async def block(operator: OperatorStub, wallet: EvmTestWallet) -> None:
    """Put a blocklist of just this wallet in force."""
    # two imports of a file never have the same time, except with a test's stopped clock
    await import_list(
        operator, wallet.address, force=True, digest=wallet.address[2:].lower() + "0" * 24
    )


async def told_to_send_coin(
    desk: ServiceHarness, headers: Any, wallet: EvmTestWallet
) -> tuple[str, str, Any]:
    """Return a payment, its option, and what the wallet has to send."""
    created = await desk.rest.call("POST", "/v1/payments", headers, {"amount": GBP})
    payment_id = created["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    data = option["actions"][0]["data"]["data"]
    actions = (await desk.rest.fetch(payment_id, option["id"], data))["actions"]
    return payment_id, option["id"], actions


async def with_coin(shop: PayoutMerchant, operator: OperatorStub) -> Paid:
    """Pay with a buyer that sends coin itself, and never confirms."""
    desk, wallet = shop.service, EvmTestWallet()
    payment_id, _, actions = await told_to_send_coin(desk, shop.tenant.headers, wallet)
    await block(operator, wallet)
    (tx_hash,) = await wallet.perform(desk.chain, actions)
    return Paid(payment_id, wallet, tx_hash, ETHER, WEI, WEI_FEE)


async def with_a_signature(shop: PayoutMerchant, operator: OperatorStub) -> Paid:
    """Pay with a buyer that signs and never confirms; a stranger submits the signature."""
    desk, wallet, stranger = shop.service, EvmTestWallet(), EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    await wait_faucet_booked(desk, stranger)
    offer = await desk.offer(wallet, tenant=shop.tenant)
    await block(operator, wallet)
    tx_hash = await submit_authorization(desk, stranger, wallet, offer)
    return Paid(offer.payment_id, wallet, tx_hash, DOLLARS, PRICE, FEE)


PAYS = pytest.mark.parametrize("pays", [with_coin, with_a_signature])


async def listed(operator: OperatorStub, *, all_: bool = False) -> list[Any]:
    request = held_pb2.ListHeldPaymentsRequest(all=all_)
    return list((await operator.call("ListHeldPayments", request)).held_payments)


async def held_of(operator: OperatorStub, payment_id: str) -> Any:
    """Return the held item of a payment, once it exists."""
    results: list[Any] = []

    async def there() -> bool:
        results[:] = [o for o in await listed(operator, all_=True) if o.payment_id == payment_id]
        return bool(results)

    await wait_until(there, True)
    (item,) = results
    return item


async def decide(operator: OperatorStub, held_id: str, verdict: Any, **more: Any) -> Any:
    request = {"held_id": held_id, "verdict": verdict, "note": "as the lawyer says", **more}
    return await operator.call("ResolveHeldPayment", held_pb2.ResolveHeldPaymentRequest(**request))


async def refusal(call) -> ApiCallError:
    with pytest.raises(ApiCallError) as caught:
        await call
    return caught.value


async def funds(desk: ServiceHarness, paid: Paid) -> int:
    if paid.asset == ETHER:
        return await desk.chain.coin(paid.wallet.address)
    return await desk.chain.balance(paid.wallet.address)


async def returned(desk: ServiceHarness, payment_id: str) -> Any:
    """Return the payout that returns held money, once it is done."""

    async def statuses() -> list[Any]:
        return [payout.status for payout in await list_payouts(desk, payment_id)]

    await wait_until(statuses, [payout_pb2.PAYOUT_STATUS_DONE])
    (item,) = await list_payouts(desk, payment_id)
    return item


def theirs(paid: Paid) -> str:
    return f"held:{paid.wallet.account.lower()}"


@PAYS
@VERDICTS
async def test_payment_of_a_payer_blocked_after_options_is_held(
    desk, shop, operator, pays, verdict, caplog
):
    paid = await pays(shop, operator)
    item = await held_of(operator, paid.payment_id)
    assert (await desk.rest.status(paid.payment_id))["status"] == "processing"
    assert (item.state, item.late) == (held_pb2.HELD_PAYMENT_STATE_HELD, False)
    assert (item.payer, item.tx_id) == (paid.wallet.account.lower(), paid.tx_hash)
    assert (item.asset, item.amount, item.held_amount) == (
        paid.asset,
        str(paid.value),
        str(paid.value),
    )
    assert item.reason == "blocked by screening list sdn"
    assert [r for r in caplog.records if r.levelname == "ERROR" and item.held_id in r.message]
    status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    waiting = len(await listed(operator))
    assert status.held_payments >= 1
    assert "payments held because their payers are blocked" in status.chains[0].problem
    assert await get_balance(desk, theirs(paid), paid.asset) == -paid.value
    merchant = f"merchant:{shop.tenant.merchant.id}"
    assert await get_balance(desk, merchant, paid.asset) == 0
    await wait_exact(desk)

    before = await funds(desk, paid)
    done = await decide(operator, item.held_id, verdict, even_if_blocked=verdict == RETURN)
    assert (done.state, done.note) == (STATES[verdict], "as the lawyer says")
    final = await desk.wait_final(paid.payment_id)
    if verdict == RELEASE:
        assert (final["status"], final["info"]["txId"]) == ("succeeded", paid.tx_hash)
        receipt = await get_receipt(desk, paid.payment_id, shop.tenant.headers)
        assert decode_claims(receipt)["transaction"]["hash"] == paid.tx_hash
        assert await get_balance(desk, merchant, paid.asset) == -(paid.value - paid.fee)
    else:
        assert (final["status"], final["failureCode"]) == ("failed", "declined_user")
        assert await get_balance(desk, merchant, paid.asset) == 0
    if verdict == RETURN:
        payout = await returned(desk, paid.payment_id)
        assert (payout.payout_id, payout.amount) == (done.payout_id, str(paid.value))
        assert await funds(desk, paid) == before + paid.value
    else:
        assert await list_payouts(desk, paid.payment_id) == []
        assert await funds(desk, paid) == before
    left = paid.value if verdict == KEEP else 0
    assert await get_balance(desk, theirs(paid), paid.asset) == -left
    # the decision is final
    assert await decide(operator, item.held_id, verdict) == done
    for other in STATES.keys() - {verdict}:
        if (verdict, other) == (KEEP, RETURN):
            continue
        error = await refusal(decide(operator, item.held_id, other, even_if_blocked=True))
        assert (error.http, error.code) == (400, "invalid_state")
    assert len(await listed(operator)) == waiting - (verdict != KEEP)
    await wait_exact(desk)


@VERDICTS
async def test_only_the_operator_reads_that_a_payer_was_blocked(desk, shop, operator, verdict):
    paid = await with_a_signature(shop, operator)
    item = await held_of(operator, paid.payment_id)
    path, headers = f"/v1/payments/{paid.payment_id}/history", shop.tenant.headers

    async def causes() -> list[str]:
        result = await desk.rest.call("GET", path, headers)
        return [event["cause"] for event in result["events"]]

    async def traced() -> list[str]:
        request = trace_pb2.TracePaymentRequest(payment_id=paid.payment_id)
        result = await operator.call("TracePayment", request)
        return [event.event.cause for event in result.events]

    assert await causes() == ["created", "seen_on_chain"]
    assert (await traced())[-1] == "held"
    await decide(operator, item.held_id, verdict, even_if_blocked=True)
    await desk.wait_final(paid.payment_id)
    assert await causes() == ["created", "seen_on_chain", "operator_decided"]
    name = held_pb2.HeldPaymentState.Name(STATES[verdict])
    assert (await traced())[-1] == name.removeprefix("HELD_PAYMENT_STATE_").lower()


async def test_a_released_payment_can_be_refunded(desk, shop, operator):
    paid = await with_a_signature(shop, operator)
    item = await held_of(operator, paid.payment_id)
    await decide(operator, item.held_id, RELEASE)
    await remove_list(operator, "sdn")
    before = await funds(desk, paid)
    await shop.refund(paid.payment_id)
    assert await funds(desk, paid) == before + paid.value
    await wait_exact(desk)


async def test_a_blocked_payer_gets_nothing_back_unless_the_operator_insists(desk, shop, operator):
    paid = await with_coin(shop, operator)
    item = await held_of(operator, paid.payment_id)
    error = await refusal(decide(operator, item.held_id, RETURN))
    assert (error.http, error.code) == (400, "invalid_state")
    assert (
        error.message == "Payer is still blocked: add --even-if-blocked to return the money anyway"
    )
    assert (await desk.rest.status(paid.payment_id))["status"] == "processing"
    await decide(operator, item.held_id, KEEP)
    assert (await refusal(decide(operator, item.held_id, RETURN))).code == "invalid_state"
    before = await funds(desk, paid)
    assert (await decide(operator, item.held_id, RETURN, even_if_blocked=True)).payout_id
    await returned(desk, paid.payment_id)
    assert await funds(desk, paid) == before + paid.value
    assert (await desk.rest.status(paid.payment_id))["status"] == "failed"
    await wait_exact(desk)


async def test_return_to_a_payer_blocked_again_waits_and_is_reported(desk, shop, operator):
    paid = await with_a_signature(shop, operator)
    item = await held_of(operator, paid.payment_id)
    await remove_list(operator, "sdn")
    executors = (await operator.call("ListExecutors", system_pb2.ListExecutorsRequest())).executors
    for executor in executors:
        request = system_pb2.PauseExecutorRequest(executor_id=executor.id)
        await operator.call("PauseExecutor", request)
    done = await decide(operator, item.held_id, RETURN)
    await block(operator, paid.wallet)
    for executor in executors:
        resumed = system_pb2.ResumeExecutorRequest(executor_id=executor.id)
        await operator.call("ResumeExecutor", resumed)

    async def problems() -> list[str]:
        return [payout.problem for payout in await list_payouts(desk, paid.payment_id)]

    await wait_until(problems, ["its destination is blocked"])
    # after it is called off, the money is kept: no merchant gets it
    request = payout_pb2.RefusePayoutRequest(payout_id=done.payout_id)
    await operator.call("RefusePayout", request)
    again = await held_of(operator, paid.payment_id)
    assert (again.state, again.payout_id) == (held_pb2.HELD_PAYMENT_STATE_KEPT, "")
    assert await get_balance(desk, theirs(paid), paid.asset) == -paid.value
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", paid.asset) == 0
    await wait_exact(desk)


async def test_only_the_fee_is_held_of_a_payment_to_the_merchants_destination(desk, shop, operator):
    await shop.set_destination(f"erc20:{DOLLAR}", OWN)
    paid = await with_a_signature(shop, operator)
    item = await held_of(operator, paid.payment_id)
    assert (item.amount, item.held_amount) == (str(PRICE), str(FEE))
    assert await get_balance(desk, theirs(paid), DOLLARS) == -FEE
    before = await funds(desk, paid)
    await decide(operator, item.held_id, RETURN, even_if_blocked=True)
    assert (await returned(desk, paid.payment_id)).amount == str(FEE)
    assert await funds(desk, paid) == before + FEE
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == 0
    await wait_exact(desk)


async def test_held_payment_cannot_be_simulated(desk, operator):
    wallet = EvmTestWallet()
    payment_id, _, actions = await told_to_send_coin(desk, desk.rest.merchant, wallet)
    await block(operator, wallet)
    await wallet.perform(desk.chain, actions)
    item = await held_of(operator, payment_id)
    for outcome in ("succeeded", "failed", "expired", "stall"):
        error = await refusal(desk.rest.simulate(payment_id, outcome))
        assert (error.http, error.code) == (400, "invalid_state")
        assert error.message == "Payment is processing and cannot be simulated"
    desk.clock.advance(4000)
    await desk.chain.mine(3)
    await wait_exact(desk)
    assert (await desk.rest.status(payment_id))["status"] == "processing"
    await decide(operator, item.held_id, RELEASE)
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"


async def test_confirm_by_a_blocked_payer_is_declined_and_its_money_is_held(desk, shop, operator):
    wallet = EvmTestWallet()
    payment_id, option_id, actions = await told_to_send_coin(desk, shop.tenant.headers, wallet)
    await block(operator, wallet)
    # the wallet is faster than the chain
    answer = await desk.rest.confirm(payment_id, option_id, ["0x" + "12" * 32])
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")
    await wallet.perform(desk.chain, actions)
    item = await held_of(operator, payment_id)
    assert (item.late, item.held_amount) == (True, str(WEI))
    assert await list_payouts(desk, payment_id) == []
    assert (await refusal(decide(operator, item.held_id, RELEASE))).code == "invalid_state"
    before = await desk.chain.coin(wallet.address)
    await decide(operator, item.held_id, RETURN, even_if_blocked=True)
    await returned(desk, payment_id)
    assert await desk.chain.coin(wallet.address) == before + WEI
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", ETHER) == 0
    assert await desk.rest.confirm(payment_id, option_id, ["0x" + "12" * 32]) == answer
    await wait_exact(desk)


@pytest.mark.parametrize("verdict", [RETURN, KEEP], ids=["return", "keep"])
async def test_late_money_of_a_blocked_payer_is_not_returned_automatically(
    desk, shop, operator, verdict
):
    wallet = await make_non_signing_wallet(desk)
    payment_id, (actions,) = await get_send_actions(shop, wallet)
    desk.clock.advance(905)
    assert (await desk.wait_final(payment_id))["status"] == "expired"
    held = await desk.chain.balance(wallet.address)
    await block(operator, wallet)
    await wallet.perform(desk.chain, actions)
    item = await held_of(operator, payment_id)
    assert item.late
    assert await list_payouts(desk, payment_id) == []
    await wait_exact(desk)
    await decide(operator, item.held_id, verdict, even_if_blocked=True)
    if verdict == RETURN:
        await returned(desk, payment_id)
    stored = PRICE if verdict == KEEP else 0
    assert await desk.chain.balance(wallet.address) == held - stored
    assert await get_balance(desk, f"held:{wallet.account.lower()}", DOLLARS) == -stored
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == 0
    assert (await desk.rest.status(payment_id))["status"] == "expired"
    await wait_exact(desk)


async def test_a_bad_verdict_is_refused(operator):
    unknown = await refusal(decide(operator, "held_unknown", KEEP))
    assert (unknown.http, unknown.code) == (400, "invalid_params")
    for changes, field in (
        ({"held_id": ""}, "heldId"),
        ({"verdict": 0}, "verdict"),
        ({"verdict": 9}, "verdict"),
        ({"note": ""}, "note"),
        ({"note": "x" * 257}, "note"),
    ):
        request = {"held_id": "held_unknown", "verdict": KEEP, **changes}
        error = await refusal(
            decide(operator, request.pop("held_id"), request.pop("verdict"), **request)
        )
        assert (error.code, error.issues[0]["field"]) == ("params_validation", field)


@VERDICTS
async def test_held_payment_survives_a_restart(tmp_path, verdict):
    home = tmp_path / "home"
    async with open_service(home, **SETTINGS) as desk, open_operator(desk.service) as operator:
        paid = await with_coin(PayoutMerchant(desk, await desk.tenant()), operator)
        first = await held_of(operator, paid.payment_id)
    async with open_service(home, **SETTINGS) as desk, open_operator(desk.service) as operator:
        assert await listed(operator, all_=True) == [first]
        assert (await desk.rest.status(paid.payment_id))["status"] == "processing"
        await wait_exact(desk)
        done = await decide(operator, first.held_id, verdict, even_if_blocked=True)
    for _ in range(2):
        async with open_service(home, **SETTINGS) as desk, open_operator(desk.service) as operator:
            assert await listed(operator, all_=True) == [done]
            if verdict == RETURN:
                await returned(desk, paid.payment_id)
            await desk.chain.mine(2)
            await wait_exact(desk)
            left = paid.value if verdict == KEEP else 0
            assert await get_balance(desk, theirs(paid), ETHER) == -left
            assert len(await list_payouts(desk, paid.payment_id)) == (verdict == RETURN)


async def test_a_payer_that_the_settings_block_is_held_too(tmp_path):
    home = tmp_path / "home"
    async with open_service(home, **SETTINGS) as desk:
        shop, wallet = (
            PayoutMerchant(desk, await desk.tenant()),
            await make_non_signing_wallet(desk),
        )
        payment_id, (actions,) = await get_send_actions(shop, wallet)
    blocks = {"blocked_accounts": (wallet.address,)}
    async with (
        open_service(home, **SETTINGS, **blocks) as desk,
        open_operator(desk.service) as operator,
    ):
        await wallet.perform(desk.chain, actions)
        item = await held_of(operator, payment_id)
        assert (item.reason, item.late) == ("blocked by the settings", False)
        assert (await desk.rest.status(payment_id))["status"] == "processing"
        await wait_exact(desk)
