"""Test that a process reports correctly on a chain that other processes settle."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.app.app import build_app
from florin_server.domain.conditions import ConditionName, ConditionState
from florin_server.features.monitoring.service import system
from florin_server.money.payments.service.load import get_head
from florin_server.money.settlement.worker.standby_worker import StandbyWorker
from florin_server.operations.service import executors
from florin_server.operations.store import leases
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import CHAIN, RELAYER, make_buyer
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness
from tests.support.until import wait_until

LEASED = ConditionName.SETTLEMENT_LEASED_ELSEWHERE
FAILING = ConditionName.SETTLEMENT_FAILING
S = 1_000_000
WALLET = make_buyer(77)


@pytest.fixture
async def lab(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


@pytest.fixture
async def onlooker(lab):
    standby = StandbyWorker.for_settlement(lab.app, lab.lab.rail)
    task = asyncio.create_task(standby.run())
    await wait_until(lambda: standby.health().turn_count, 1)
    yield standby
    task.cancel()
    await asyncio.wait([task])


async def looks(lab: SettlementHarness, onlooker: StandbyWorker, seconds: float = 5) -> None:
    turns = onlooker.health().turn_count
    lab.lab.clock.advance(seconds)
    await wait_until(lambda: onlooker.health().turn_count > turns)


def list_problems(onlooker: StandbyWorker) -> dict[ConditionName, str]:
    conditions = onlooker.health().conditions
    return {
        condition.name: condition.reason
        for condition in conditions
        if condition.state is not ConditionState.OK
    }


async def test_standby_reports_the_lease_owner_without_a_problem(lab, onlooker):
    await lab.turn()
    await looks(lab, onlooker)
    assert list_problems(onlooker) == {
        LEASED: f"another process has the lease of {RELAYER.address}"
    }
    app = build_app(lab.app, [onlooker])
    (chain,) = (await system.get_status(app)).chains
    assert (chain.chain_id, chain.problem) == (CHAIN, "")
    await wait_until(lambda: onlooker.head, (await lab.lab.rail.observer.get_head()).number)


async def test_standby_reports_a_missing_lease_owner_after_half_a_minute(lab, onlooker):
    await looks(lab, onlooker)
    await lab.turn()
    (sender,) = lab.settler.executors
    await sender.release_lease()
    await looks(lab, onlooker)
    # another process could take it in the next second
    for _ in range(5):
        await looks(lab, onlooker)
        assert FAILING not in list_problems(onlooker)
    await looks(lab, onlooker)
    assert list_problems(onlooker) == {
        FAILING: (
            f"no process has the lease of {RELAYER.address}: start a process with `florin worker`"
        )
    }
    name = leases.format_name(CHAIN, RELAYER.address)
    now_us = lab.lab.clock.now_us()
    assert await lab.store.write(leases.acquire(name, "other", now_us, 25 * S, steal=False))
    await looks(lab, onlooker)
    assert list(list_problems(onlooker)) == [LEASED]


async def test_keys_elsewhere_are_executors_that_can_be_paused(lab, onlooker):
    app = build_app(lab.app, [onlooker])
    account = f"{CHAIN}:{RELAYER.address}"
    await lab.lab.fund(WALLET)
    await lab.create_processing_payment(WALLET)
    await lab.turn(2)
    await looks(lab, onlooker)
    (executor,) = await executors.list_executors(app)
    assert (executor.id, executor.paused_at_us, executor.open_transactions) == (account, None, 1)
    # recorded for the process that sends
    assert (await executors.pause(app, account)).paused_at_us is not None
    assert (await executors.resume(app, account)).paused_at_us is None


async def test_unreadable_chain_head_resets_the_stored_head(lab, onlooker, monkeypatch):
    await wait_until(lambda: onlooker.head)

    async def silent():
        raise RailUnavailable("no answer")

    monkeypatch.setattr(lab.lab.rail.observer, "get_head", silent)
    await lab.lab.mine()
    await wait_until(lambda: onlooker.head, 0)


async def test_process_that_lost_the_lease_asks_the_chain_for_its_head(lab):
    """Its own head would stay that of the moment, and offers would start there for ever."""
    await lab.lab.fund(WALLET)
    payment = await lab.create_processing_payment(WALLET)
    await lab.turn()
    await lab.mine()
    rail, chain = lab.lab.rail, lab.app.chains[CHAIN]
    methods = lab.lab.node.methods
    assert chain.paying_blocks.keys() == {payment.id}
    before = len(methods)
    assert await get_head(lab.app, rail) == lab.settler.head == lab.settler.health().head > 0
    assert len(methods) == before

    (sender,) = lab.settler.executors
    await sender.release_lease()
    now_us = lab.lab.clock.now_us()
    acquired = leases.acquire(sender.lease_name, "other", now_us, 60 * S, steal=False)
    assert await lab.store.write(acquired)
    await lab.turn()
    assert (lab.settler.head, lab.settler.health().head, chain.paying_blocks) == (0, 0, {})
    # no balance is read from a node that has not reached it
    assert lab.settler.seen_block > 0
    for _ in range(2):
        head = (await rail.observer.get_head()).number
        before = len(methods)
        heads = await asyncio.gather(*(get_head(lab.app, rail) for _ in range(20)))
        assert await get_head(lab.app, rail) == head
        # one for all of them
        assert (set(heads), len(methods) - before) == ({head}, 1)
        await lab.lab.rhythm.seal(0)
        lab.lab.clock.advance(2)


@pytest.mark.parametrize("broken", ["_read_head", "_check_leases"])
async def test_onlooker_that_fails_leaves_nothing_running(lab, monkeypatch, broken):
    standby = StandbyWorker.for_settlement(lab.app, lab.lab.rail)

    async def fails() -> None:
        raise ValueError("unexpected error")

    monkeypatch.setattr(standby, broken, fails)
    before = asyncio.all_tasks()
    with pytest.raises(ValueError, match="unexpected error"):
        await standby.run()
    assert asyncio.all_tasks() <= before
