"""Test that larger payments become final later than small ones, as the settings require."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.money.payments.service.checkout import find_progress
from florin_server.money.payments.service.options import list_options
from florin_server.money.settlement.store import settlement_items
from florin_server.rails.evm.larger_amounts import LargerAmounts
from florin_server.rails.evm.rail import EvmRail

from tests.support.evm_harness import RELAYER, make_buyer, to_account
from tests.support.settlement_harness import (
    BUYER,
    CHAIN,
    SettlementHarness,
    open_settlement_harness,
)

FINAL_S, LARGER_S, LARGEST_S = 30, 60, 90
# in cents, around a bound of 1.51 dollars
SMALL, LARGER = 150, 151
STEP_S = 3


def steps(*seconds: int) -> tuple[LargerAmounts, ...]:
    amounts = ("1.51", "1.52")
    return tuple(
        LargerAmounts(from_amount={DEVNET.token.symbol: amount}, final_after_s=after_s)
        for amount, after_s in zip(amounts, seconds, strict=False)
    )


@pytest.fixture
async def shop(tmp_path):
    rules = {"confirmations": 2, "final_after_s": FINAL_S, "larger_amounts": steps(LARGER_S)}
    async with open_settlement_harness(tmp_path, timed=True, **rules) as running:
        # the pace is known before the first payment
        await pass_time(running, 60)
        yield running


async def pass_time(running: SettlementHarness, seconds: int) -> None:
    for _ in range(seconds // STEP_S):
        running.lab.clock.advance(STEP_S)
        await running.mine()


async def confirmed(running: SettlementHarness, value: int, number: int = 7):
    """Return a payment whose transaction is in a block."""
    wallet = make_buyer(number)
    await running.lab.fund(wallet)
    payment = await running.create_processing_payment(wallet, value)
    await running.turn()
    await running.mine()
    return payment


async def seconds_until_final(running: SettlementHarness, payment) -> int:
    for passed in range(0, 3 * LARGEST_S, STEP_S):
        if (await running.get_payment(payment)).status.is_final:
            await running.check(await running.get_payment(payment))
            return passed
        await pass_time(running, STEP_S)
    raise AssertionError("the payment is not final")


@pytest.mark.parametrize(("value", "after_s"), [(SMALL, FINAL_S), (LARGER, LARGER_S)])
async def test_amount_from_the_bound_on_is_final_later(shop, value, after_s):
    payment = await confirmed(shop, value)
    passed = await seconds_until_final(shop, payment)
    # blocks without time between them make the pace seem faster for a while
    assert after_s - STEP_S <= passed <= after_s + 4 * STEP_S
    assert (await shop.get_payment(payment)).status == "succeeded"


async def test_amounts_in_the_same_block_become_final_at_their_own_time(shop, monkeypatch):
    """Nodes that must agree are asked for each payment at its own time, and none is denied."""
    requests = []

    async def agreed(facts):
        requests.extend(getattr(fact, "value", 0) for fact in facts)
        return dict.fromkeys(facts, True)

    monkeypatch.setattr(type(shop.lab.rail.observer), "agreement", 2)
    monkeypatch.setattr(shop.lab.rail.observer, "confirm_facts", agreed)
    wallets = make_buyer(7), make_buyer(8)
    await shop.lab.fund(*wallets)
    small, larger = [
        await shop.create_processing_payment(local_account, value)
        for local_account, value in zip(wallets, (SMALL, LARGER), strict=True)
    ]
    await shop.turn()
    await shop.mine()
    await seconds_until_final(shop, small)
    assert await shop.status(larger) == "processing"
    assert LARGER * 10_000 not in requests
    assert await seconds_until_final(shop, larger) > FINAL_S // 2
    assert LARGER * 10_000 in requests


async def test_node_vouches_for_an_amount_only_when_it_is_final_there(shop):
    payment = await confirmed(shop, LARGER)
    await pass_time(shop, FINAL_S + 2 * STEP_S)
    item = await shop.get_item(payment)
    events = await shop.lab.rail.observer.find_settlement_events([item])
    node = shop.lab.rail.observer.evidence
    testimony = await node.attest(frozenset(events))
    assert (testimony.facts, testimony.is_caught_up) == (frozenset(), False)
    await pass_time(shop, LARGER_S - FINAL_S + 2 * STEP_S)
    testimony = await node.attest(frozenset(events))
    assert testimony.facts == frozenset(events)


async def test_larger_amount_is_paid_again_after_a_reorganization_that_small_ones_do_not_outlast(
    shop,
):
    payment = await confirmed(shop, LARGER)
    (sent,) = await shop.transactions()
    await pass_time(shop, FINAL_S + 4 * STEP_S)
    # its transaction is final by the chain's rule, but the payment is not
    assert await shop.store.read(settlement_items.list_unsettled(CHAIN))
    assert await shop.status(payment) == "processing"
    await shop.lab.reorg(await shop.lab.depth_of(sent.hash), sent.hash)
    await shop.mine()
    assert await shop.status(payment) == "processing"
    passed = await seconds_until_final(shop, payment)
    ended = await shop.get_payment(payment)
    assert ended.status == "succeeded"
    assert passed >= LARGER_S - 2 * STEP_S


async def test_promise_and_progress_of_a_larger_amount_are_its_own(shop):
    wallet = make_buyer(9)
    await shop.lab.fund(wallet)

    async def promised(value: int) -> int:
        options = await list_options(
            shop.app, BUYER, await shop.create_unpaid(value), [to_account(wallet)]
        )
        return options.options[0].eta_s

    assert await promised(LARGER) - await promised(SMALL) == LARGER_S - FINAL_S
    small, larger = await confirmed(shop, SMALL, 10), await confirmed(shop, LARGER, 11)
    needed = [
        find_progress(shop.app, await shop.get_payment(item)).required_confirmations
        for item in (small, larger)
    ]
    assert needed == [FINAL_S // STEP_S + 1, LARGER_S // STEP_S + 1]
    await seconds_until_final(shop, larger)
    # the wait of a larger payment does not change the promise for others
    assert len(shop.app.chains[CHAIN].settle_times.samples) == 1


async def test_changed_finality_amounts_apply_to_open_payments_after_a_restart(shop):
    payment = await confirmed(shop, LARGER)
    await pass_time(shop, FINAL_S)
    lab = shop.lab
    await shop.stop()
    await lab.rail.close()
    chain = lab.rail.chain.model_copy(update={"larger_amounts": steps(LARGEST_S)})
    lab.rail = EvmRail(chain, RELAYER, lab.node, now=lambda: lab.clock.steady_us() / 1e6)
    await lab.rail.start()
    await shop.begin()
    # this process has not observed its block for any time yet
    passed = await seconds_until_final(shop, payment)
    assert LARGER_S - FINAL_S < passed <= LARGEST_S + 3 * STEP_S
