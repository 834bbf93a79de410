"""Who is blocked after its options were told, and pays all the same: the operator decides.

The buyer pays by itself, or a stranger submits what it signed; Florin sent nothing, and is told by
the chain. Every story ends with books that are whole and wallets that hold what is booked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import held_pb2, payout_pb2, system_pb2, trace_pb2

from tests.support.api import Refused
from tests.support.books import SETTINGS, balance, exact
from tests.support.desk import Desk, opened
from tests.support.installation import Operator, operator_of
from tests.support.late_money import DOLLARS, mute, payouts_of, submit, told_to_send
from tests.support.payout_shop import DOLLAR, ETHER, FEE, GBP, PRICE, WEI, Shop, filled
from tests.support.receipts import receipt_of, said_in
from tests.support.sanctions_import import put, remove
from tests.support.until import until
from tests.support.wallet import Wallet

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
    async with opened(tmp_path_factory.mktemp("held") / "home", **SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> Shop:
    return Shop(desk, await desk.tenant())


@pytest_asyncio.fixture(loop_scope="module")
async def operator(desk):
    async with operator_of(desk.service) as operator:
        yield operator


@dataclass
class Paid:
    """A payment that was paid past Florin, by a payer who was blocked before."""

    payment_id: str
    wallet: Wallet
    tx_hash: str
    asset: str
    value: int
    fee: int


async def block(operator: Operator, wallet: Wallet) -> None:
    """Puts a list of just this one in force."""
    # no two imports of a file are at the same time, but where a test's clock stands still
    await put(operator, wallet.address, force=True, digest=wallet.address[2:].lower() + "0" * 24)


async def told_to_send_coin(desk: Desk, headers: Any, wallet: Wallet) -> tuple[str, str, Any]:
    """A payment, its option, and what the wallet is told to send."""
    made = await desk.rest.call("POST", "/v1/payments", headers, {"amount": GBP})
    payment_id = made["paymentId"]
    (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
    data = option["actions"][0]["data"]["data"]
    actions = (await desk.rest.fetch(payment_id, option["id"], data))["actions"]
    return payment_id, option["id"], actions


async def with_coin(shop: Shop, operator: Operator) -> Paid:
    """The buyer sends coin by itself, and never confirms."""
    desk, wallet = shop.desk, Wallet()
    payment_id, _, actions = await told_to_send_coin(desk, shop.tenant.headers, wallet)
    await block(operator, wallet)
    (tx_hash,) = await wallet.perform(desk.chain, actions)
    return Paid(payment_id, wallet, tx_hash, ETHER, WEI, WEI_FEE)


async def with_a_signature(shop: Shop, operator: Operator) -> Paid:
    """The buyer signs and never confirms; a stranger submits it."""
    desk, wallet, stranger = shop.desk, Wallet(), Wallet()
    await filled(desk, wallet)
    await filled(desk, stranger)
    offer = await desk.offer(wallet, tenant=shop.tenant)
    await block(operator, wallet)
    tx_hash = await submit(desk, stranger, wallet, offer)
    return Paid(offer.payment_id, wallet, tx_hash, DOLLARS, PRICE, FEE)


PAYS = pytest.mark.parametrize("pays", [with_coin, with_a_signature])


async def listed(operator: Operator, *, all_: bool = False) -> list[Any]:
    request = held_pb2.ListHeldPaymentsRequest(all=all_)
    return list((await operator.ask("ListHeldPayments", request)).held_payments)


async def held_of(operator: Operator, payment_id: str) -> Any:
    """What is held for a payment, once it is."""
    found: list[Any] = []

    async def there() -> bool:
        found[:] = [o for o in await listed(operator, all_=True) if o.payment_id == payment_id]
        return bool(found)

    await until(there, True)
    (one,) = found
    return one


async def decide(operator: Operator, held_id: str, verdict: Any, **more: Any) -> Any:
    asked = {"held_id": held_id, "verdict": verdict, "note": "as the lawyer says", **more}
    return await operator.ask("ResolveHeldPayment", held_pb2.ResolveHeldPaymentRequest(**asked))


async def refusal(call) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    return caught.value


async def funds(desk: Desk, paid: Paid) -> int:
    if paid.asset == ETHER:
        return await desk.chain.coin(paid.wallet.address)
    return await desk.chain.balance(paid.wallet.address)


async def returned(desk: Desk, payment_id: str) -> Any:
    """The payout that returns held money, once it is done."""

    async def statuses() -> list[Any]:
        return [one.status for one in await payouts_of(desk, payment_id)]

    await until(statuses, [payout_pb2.PAYOUT_STATUS_DONE])
    (one,) = await payouts_of(desk, payment_id)
    return one


def theirs(paid: Paid) -> str:
    return f"held:{paid.wallet.account.lower()}"


@PAYS
@VERDICTS
async def test_money_of_a_payer_who_was_blocked_meanwhile_waits_for_a_verdict(
    desk, shop, operator, pays, verdict, caplog
):
    paid = await pays(shop, operator)
    one = await held_of(operator, paid.payment_id)
    assert (await desk.rest.status(paid.payment_id))["status"] == "processing"
    assert (one.state, one.late) == (held_pb2.HELD_PAYMENT_STATE_HELD, False)
    assert (one.payer, one.tx_id) == (paid.wallet.account.lower(), paid.tx_hash)
    assert (one.asset, one.amount, one.held_amount) == (
        paid.asset,
        str(paid.value),
        str(paid.value),
    )
    assert one.reason == "blocked by screening list sdn"
    assert [r for r in caplog.records if r.levelname == "ERROR" and one.held_id in r.message]
    status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    waiting = len(await listed(operator))
    assert status.held_payments >= 1
    assert "payments held because their payers are blocked" in status.chains[0].problem
    assert await balance(desk, theirs(paid), paid.asset) == -paid.value
    merchant = f"merchant:{shop.tenant.merchant.id}"
    assert await balance(desk, merchant, paid.asset) == 0
    await exact(desk)

    before = await funds(desk, paid)
    done = await decide(operator, one.held_id, verdict, even_if_blocked=verdict == RETURN)
    assert (done.state, done.note) == (STATES[verdict], "as the lawyer says")
    final = await desk.final(paid.payment_id)
    if verdict == RELEASE:
        assert (final["status"], final["info"]["txId"]) == ("succeeded", paid.tx_hash)
        receipt = await receipt_of(desk, paid.payment_id, shop.tenant.headers)
        assert said_in(receipt)["transaction"]["hash"] == paid.tx_hash
        assert await balance(desk, merchant, paid.asset) == -(paid.value - paid.fee)
    else:
        assert (final["status"], final["failureCode"]) == ("failed", "declined_user")
        assert await balance(desk, merchant, paid.asset) == 0
    if verdict == RETURN:
        payout = await returned(desk, paid.payment_id)
        assert (payout.payout_id, payout.amount) == (done.payout_id, str(paid.value))
        assert await funds(desk, paid) == before + paid.value
    else:
        assert await payouts_of(desk, paid.payment_id) == []
        assert await funds(desk, paid) == before
    left = paid.value if verdict == KEEP else 0
    assert await balance(desk, theirs(paid), paid.asset) == -left
    # once and for all
    assert await decide(operator, one.held_id, verdict) == done
    for other in STATES.keys() - {verdict}:
        if (verdict, other) == (KEEP, RETURN):
            continue
        error = await refusal(decide(operator, one.held_id, other, even_if_blocked=True))
        assert (error.http, error.code) == (400, "invalid_state")
    assert len(await listed(operator)) == waiting - (verdict != KEEP)
    await exact(desk)


@VERDICTS
async def test_only_the_operator_reads_that_a_payer_was_blocked(desk, shop, operator, verdict):
    paid = await with_a_signature(shop, operator)
    one = await held_of(operator, paid.payment_id)
    path, headers = f"/v1/payments/{paid.payment_id}/history", shop.tenant.headers

    async def causes() -> list[str]:
        told = await desk.rest.call("GET", path, headers)
        return [event["cause"] for event in told["events"]]

    async def traced() -> list[str]:
        request = trace_pb2.TracePaymentRequest(payment_id=paid.payment_id)
        found = await operator.ask("TracePayment", request)
        return [event.event.cause for event in found.events]

    assert await causes() == ["created", "seen_on_chain"]
    assert (await traced())[-1] == "held"
    await decide(operator, one.held_id, verdict, even_if_blocked=True)
    await desk.final(paid.payment_id)
    assert await causes() == ["created", "seen_on_chain", "operator_decided"]
    told = held_pb2.HeldPaymentState.Name(STATES[verdict])
    assert (await traced())[-1] == told.removeprefix("HELD_PAYMENT_STATE_").lower()


async def test_a_released_payment_can_be_refunded(desk, shop, operator):
    paid = await with_a_signature(shop, operator)
    one = await held_of(operator, paid.payment_id)
    await decide(operator, one.held_id, RELEASE)
    await remove(operator, "sdn")
    before = await funds(desk, paid)
    await shop.refund(paid.payment_id)
    assert await funds(desk, paid) == before + paid.value
    await exact(desk)


async def test_a_blocked_payer_gets_nothing_back_unless_the_operator_insists(desk, shop, operator):
    paid = await with_coin(shop, operator)
    one = await held_of(operator, paid.payment_id)
    error = await refusal(decide(operator, one.held_id, RETURN))
    assert (error.http, error.code) == (400, "invalid_state")
    assert error.message == "Payer is still blocked: nothing is returned unless you insist"
    assert (await desk.rest.status(paid.payment_id))["status"] == "processing"
    await decide(operator, one.held_id, KEEP)
    assert (await refusal(decide(operator, one.held_id, RETURN))).code == "invalid_state"
    before = await funds(desk, paid)
    assert (await decide(operator, one.held_id, RETURN, even_if_blocked=True)).payout_id
    await returned(desk, paid.payment_id)
    assert await funds(desk, paid) == before + paid.value
    assert (await desk.rest.status(paid.payment_id))["status"] == "failed"
    await exact(desk)


async def test_a_return_to_a_payer_who_is_blocked_again_waits_and_is_told(desk, shop, operator):
    paid = await with_a_signature(shop, operator)
    one = await held_of(operator, paid.payment_id)
    await remove(operator, "sdn")
    executors = (await operator.ask("ListExecutors", system_pb2.ListExecutorsRequest())).executors
    for executor in executors:
        request = system_pb2.PauseExecutorRequest(executor_id=executor.id)
        await operator.ask("PauseExecutor", request)
    done = await decide(operator, one.held_id, RETURN)
    await block(operator, paid.wallet)
    for executor in executors:
        resumed = system_pb2.ResumeExecutorRequest(executor_id=executor.id)
        await operator.ask("ResumeExecutor", resumed)

    async def problems() -> list[str]:
        return [one.problem for one in await payouts_of(desk, paid.payment_id)]

    await until(problems, ["the account that it goes to is blocked"])
    # called off, it is kept: no merchant gets it
    request = payout_pb2.RefusePayoutRequest(payout_id=done.payout_id)
    await operator.ask("RefusePayout", request)
    again = await held_of(operator, paid.payment_id)
    assert (again.state, again.payout_id) == (held_pb2.HELD_PAYMENT_STATE_KEPT, "")
    assert await balance(desk, theirs(paid), paid.asset) == -paid.value
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", paid.asset) == 0
    await exact(desk)


async def test_what_the_merchants_own_destination_received_is_only_noted(desk, shop, operator):
    await shop.wants(f"erc20:{DOLLAR}", OWN)
    paid = await with_a_signature(shop, operator)
    one = await held_of(operator, paid.payment_id)
    assert (one.amount, one.held_amount) == (str(PRICE), str(FEE))
    assert await balance(desk, theirs(paid), DOLLARS) == -FEE
    before = await funds(desk, paid)
    await decide(operator, one.held_id, RETURN, even_if_blocked=True)
    assert (await returned(desk, paid.payment_id)).amount == str(FEE)
    assert await funds(desk, paid) == before + FEE
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == 0
    await exact(desk)


async def test_a_simulation_does_not_end_what_is_held(desk, operator):
    wallet = Wallet()
    payment_id, _, actions = await told_to_send_coin(desk, desk.rest.merchant, wallet)
    await block(operator, wallet)
    await wallet.perform(desk.chain, actions)
    one = await held_of(operator, payment_id)
    for outcome in ("succeeded", "failed", "expired", "stall"):
        error = await refusal(desk.rest.simulate(payment_id, outcome))
        assert (error.http, error.code) == (400, "invalid_state")
        assert error.message == "Payment is processing and cannot be simulated"
    desk.clock.advance(4000)
    await desk.chain.mine(3)
    await exact(desk)
    assert (await desk.rest.status(payment_id))["status"] == "processing"
    await decide(operator, one.held_id, RELEASE)
    assert (await desk.final(payment_id))["status"] == "succeeded"


async def test_who_confirms_while_blocked_is_declined_and_what_comes_is_held(desk, shop, operator):
    wallet = Wallet()
    payment_id, option_id, actions = await told_to_send_coin(desk, shop.tenant.headers, wallet)
    await block(operator, wallet)
    # the wallet is faster than the chain
    answer = await desk.rest.confirm(payment_id, option_id, ["0x" + "12" * 32])
    assert (answer["status"], answer["failureCode"]) == ("failed", "declined_user")
    await wallet.perform(desk.chain, actions)
    one = await held_of(operator, payment_id)
    assert (one.late, one.held_amount) == (True, str(WEI))
    assert await payouts_of(desk, payment_id) == []
    assert (await refusal(decide(operator, one.held_id, RELEASE))).code == "invalid_state"
    before = await desk.chain.coin(wallet.address)
    await decide(operator, one.held_id, RETURN, even_if_blocked=True)
    await returned(desk, payment_id)
    assert await desk.chain.coin(wallet.address) == before + WEI
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", ETHER) == 0
    assert await desk.rest.confirm(payment_id, option_id, ["0x" + "12" * 32]) == answer
    await exact(desk)


@pytest.mark.parametrize("verdict", [RETURN, KEEP], ids=["return", "keep"])
async def test_late_money_of_a_blocked_payer_is_not_returned_by_itself(
    desk, shop, operator, verdict
):
    wallet = await mute(desk)
    payment_id, (actions,) = await told_to_send(shop, wallet)
    desk.clock.advance(905)
    assert (await desk.final(payment_id))["status"] == "expired"
    held = await desk.chain.balance(wallet.address)
    await block(operator, wallet)
    await wallet.perform(desk.chain, actions)
    one = await held_of(operator, payment_id)
    assert one.late
    assert await payouts_of(desk, payment_id) == []
    await exact(desk)
    await decide(operator, one.held_id, verdict, even_if_blocked=True)
    if verdict == RETURN:
        await returned(desk, payment_id)
    kept = PRICE if verdict == KEEP else 0
    assert await desk.chain.balance(wallet.address) == held - kept
    assert await balance(desk, f"held:{wallet.account.lower()}", DOLLARS) == -kept
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == 0
    assert (await desk.rest.status(payment_id))["status"] == "expired"
    await exact(desk)


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
        asked = {"held_id": "held_unknown", "verdict": KEEP, **changes}
        error = await refusal(decide(operator, asked.pop("held_id"), asked.pop("verdict"), **asked))
        assert (error.code, error.issues[0]["field"]) == ("params_validation", field)


@VERDICTS
async def test_a_restart_changes_nothing_about_what_is_held(tmp_path, verdict):
    home = tmp_path / "home"
    async with opened(home, **SETTINGS) as desk, operator_of(desk.service) as operator:
        paid = await with_coin(Shop(desk, await desk.tenant()), operator)
        first = await held_of(operator, paid.payment_id)
    async with opened(home, **SETTINGS) as desk, operator_of(desk.service) as operator:
        assert await listed(operator, all_=True) == [first]
        assert (await desk.rest.status(paid.payment_id))["status"] == "processing"
        await exact(desk)
        done = await decide(operator, first.held_id, verdict, even_if_blocked=True)
    for _ in range(2):
        async with opened(home, **SETTINGS) as desk, operator_of(desk.service) as operator:
            assert await listed(operator, all_=True) == [done]
            if verdict == RETURN:
                await returned(desk, paid.payment_id)
            await desk.chain.mine(2)
            await exact(desk)
            left = paid.value if verdict == KEEP else 0
            assert await balance(desk, theirs(paid), ETHER) == -left
            assert len(await payouts_of(desk, paid.payment_id)) == (verdict == RETURN)


async def test_a_payer_that_the_settings_block_is_held_too(tmp_path):
    home = tmp_path / "home"
    async with opened(home, **SETTINGS) as desk:
        shop, wallet = Shop(desk, await desk.tenant()), await mute(desk)
        payment_id, (actions,) = await told_to_send(shop, wallet)
    blocks = {"blocked_accounts": (wallet.address,)}
    async with opened(home, **SETTINGS, **blocks) as desk, operator_of(desk.service) as operator:
        await wallet.perform(desk.chain, actions)
        one = await held_of(operator, payment_id)
        assert (one.reason, one.late) == ("blocked by the settings", False)
        assert (await desk.rest.status(payment_id))["status"] == "processing"
        await exact(desk)
