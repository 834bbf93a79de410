"""Test that observations survive a settler: first sightings, pace, and payment durations."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import ConditionName, ConditionState
from florin_server.domain.settlement.settle_times import SettleTimes
from florin_server.money.payments.service.options import list_options
from florin_server.money.settlement.worker.observations import ChainObservations
from florin_server.operations.store import observed
from florin_server.rails.evm.rail import EvmRail

from tests.support.evm_harness import RELAYER, make_buyer, to_account
from tests.support.settlement_harness import (
    BUYER,
    CHAIN,
    SettlementHarness,
    open_settlement_harness,
)

FINAL_S = 30


@pytest.fixture
async def timed(tmp_path):
    """Open a chain whose blocks are final after 30 seconds, by the lab's clock."""
    async with open_settlement_harness(
        tmp_path, timed=True, confirmations=2, final_after_s=FINAL_S
    ) as running:
        yield running


async def pass_time(running: SettlementHarness, seconds: int, step: int = 3) -> None:
    """Seal a block and let the settler look every few seconds."""
    for _ in range(seconds // step):
        running.lab.clock.advance(step)
        await running.mine()


async def restart(running: SettlementHarness, away_s: int = 1) -> None:
    """Start a new process, whose rail has observed nothing."""
    lab = running.lab
    await running.stop()
    await lab.rail.close()
    lab.rail = EvmRail(lab.rail.chain, RELAYER, lab.node, now=lambda: lab.clock.steady_us() / 1e6)
    await lab.rail.start()
    lab.clock.advance(away_s)
    await running.begin()


async def confirmed(running: SettlementHarness, number: int = 7):
    """Return a payment whose transaction is in a block."""
    wallet = make_buyer(number)
    await running.lab.fund(wallet)
    payment = await running.create_processing_payment(wallet)
    await running.turn()
    await running.mine()
    return payment


async def seconds_until_final(running: SettlementHarness, payment, step: int = 3) -> int:
    for passed in range(0, 3 * FINAL_S, step):
        if (await running.get_payment(payment)).status.is_final:
            return passed
        await pass_time(running, step, step)
    raise AssertionError("the payment is not final")


async def test_restart_makes_a_payment_wait_for_no_longer(timed):
    payment = await confirmed(timed)
    await pass_time(timed, 21)
    assert await timed.status(payment) == "processing"
    await restart(timed)
    assert await timed.status(payment) == "processing"
    # 21 of 30 seconds are over; without the stored observations it would take 27 more
    assert 6 <= await seconds_until_final(timed, payment) <= 15
    await timed.check(await timed.get_payment(payment))


async def test_restart_counts_no_head_of_a_chain_that_was_replaced(timed):
    payment = await confirmed(timed)
    await pass_time(timed, 21)
    stored = await timed.store.read(observed.list_seen_heads(CHAIN))
    assert stored
    other = [(number, "0x" + "ab" * 32, time, at_us) for number, _, time, at_us in stored]
    await timed.store.write(observed.save(CHAIN, heads=other))
    await restart(timed)
    assert await seconds_until_final(timed, payment) >= 24


async def test_clock_that_was_wrong_makes_nothing_older_than_its_block(timed):
    payment = await confirmed(timed)
    stored = await timed.store.read(observed.list_seen_heads(CHAIN))
    early = [(number, hash_, time, at_us - 3_600_000_000) for number, hash_, time, at_us in stored]
    await timed.store.write(observed.save(CHAIN, heads=early))
    await restart(timed)
    assert await seconds_until_final(timed, payment) >= 24


async def test_heads_are_written_every_few_seconds_and_while_something_is_open(timed):
    await pass_time(timed, 30)
    assert await timed.store.read(observed.list_seen_heads(CHAIN)) == []
    payment = await confirmed(timed)
    written = await timed.store.read(observed.list_seen_heads(CHAIN))
    await timed.mine(10)
    assert await timed.store.read(observed.list_seen_heads(CHAIN)) == written
    await pass_time(timed, 12)
    stored = await timed.store.read(observed.list_seen_heads(CHAIN))
    assert stored != written
    assert len(stored) <= 16
    await seconds_until_final(timed, payment)
    stored = await timed.store.read(observed.list_seen_heads(CHAIN))
    await pass_time(timed, 30)
    assert await timed.store.read(observed.list_seen_heads(CHAIN)) == stored
    # a very old head does not make later heads wait longer
    await restart(timed, away_s=43_200)
    await confirmed(timed, 8)
    first = await timed.store.read(observed.list_seen_heads(CHAIN))
    await pass_time(timed, 18)
    assert await timed.store.read(observed.list_seen_heads(CHAIN)) != first


async def test_eta_follows_observed_payment_times_and_survives_a_restart(timed):
    wallet = make_buyer(99)
    await timed.lab.fund(wallet)

    async def promised() -> int:
        options = await list_options(
            timed.app, BUYER, await timed.create_unpaid(), [to_account(wallet)]
        )
        return options.options[0].eta_s

    assert await promised() == 5
    for number in range(5):
        payment = await confirmed(timed, 10 + number)
        await seconds_until_final(timed, payment)
    median_s = timed.app.chains[CHAIN].settle_times.median_s
    assert FINAL_S <= median_s <= FINAL_S + 9
    assert median_s <= await promised() <= median_s + 1
    await pass_time(timed, 12)
    await restart(timed)
    assert median_s <= await promised() <= median_s + 1
    # a process that does not settle makes the same promise
    timed.app.chains[CHAIN].settle_times = SettleTimes()
    await ChainObservations(timed.app, timed.lab.rail).refresh()
    assert timed.app.chains[CHAIN].settle_times.median_s == median_s


async def test_changed_block_pace_is_a_condition_until_it_becomes_usual(timed):
    def condition():
        conditions = timed.settler.health().conditions
        return next(item for item in conditions if item.name is ConditionName.PACE_CHANGED)

    await pass_time(timed, 300, 20)
    assert timed.app.chains[CHAIN].pace.usual_s == 20
    assert condition().state is ConditionState.OK
    await pass_time(timed, 120, 4)
    assert timed.app.chains[CHAIN].pace.measured_s == 4
    assert condition().state is ConditionState.OK
    await pass_time(timed, 660, 4)
    assert condition().state is ConditionState.WARNING
    assert "every 4 s instead of every 20 s" in condition().reason
    assert "final after 9 blocks" in condition().reason
    await pass_time(timed, 600, 4)
    await restart(timed)
    # the next process knows it, and the pace
    assert timed.lab.rail.pace.block_s == 4
    assert condition().state is ConditionState.WARNING
    await pass_time(timed, 80, 4)
    timed.lab.clock.advance(86_400)
    await timed.mine()
    assert timed.app.chains[CHAIN].pace.usual_s == 4
    assert condition().state is ConditionState.OK
