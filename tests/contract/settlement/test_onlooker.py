"""What a process tells of a chain where others settle: it is true, whatever they do."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.boot.app import app_of
from florin_server.domain.conditions import ConditionName, State
from florin_server.flows.operator import executors, system
from florin_server.rails.types import RailUnavailable
from florin_server.store.settlement import leases
from florin_server.workers.settlement.onlooker import Onlooker
from florin_server.workers.settlement.tx_sender import lease_of

from tests.support.evm_lab import CHAIN, RELAYER, buyer
from tests.support.settler_lab import Works, works
from tests.support.until import until

LEASED = ConditionName.SETTLEMENT_LEASED_ELSEWHERE
FAILING = ConditionName.SETTLEMENT_FAILING
S = 1_000_000
WALLET = buyer(77)


@pytest.fixture
async def lab(tmp_path):
    async with works(tmp_path) as running:
        yield running


@pytest.fixture
async def onlooker(lab):
    made = Onlooker.of_settlers(lab.app, lab.lab.rail)
    task = asyncio.create_task(made.run())
    await until(lambda: made.health().turns, 1)
    yield made
    task.cancel()
    await asyncio.wait([task])


async def looks(lab: Works, onlooker: Onlooker, seconds: float = 5) -> None:
    turns = onlooker.health().turns
    lab.lab.clock.advance(seconds)
    await until(lambda: onlooker.health().turns > turns)


def told(onlooker: Onlooker) -> dict[ConditionName, str]:
    found = onlooker.health().conditions
    return {one.name: one.reason for one in found if one.state is not State.OK}


async def test_it_tells_who_settles_and_is_no_problem(lab, onlooker):
    await lab.turn()
    await looks(lab, onlooker)
    assert told(onlooker) == {LEASED: f"another process has the lease of {RELAYER.address}"}
    app = app_of(lab.app, [onlooker])
    (chain,) = await system.chains(app)
    assert (chain.chain_id, chain.problem) == (CHAIN, "")
    onlooker.wake()
    await until(lambda: onlooker.head, (await lab.lab.rail.observer.head()).number)


async def test_that_nobody_settles_is_told_after_half_a_minute(lab, onlooker):
    await looks(lab, onlooker)
    await lab.turn()
    (sender,) = lab.settler.executors
    await sender.give_back()
    await looks(lab, onlooker)
    # somebody else may take it in the next second
    for _ in range(5):
        await looks(lab, onlooker)
        assert FAILING not in told(onlooker)
    await looks(lab, onlooker)
    assert told(onlooker) == {
        FAILING: f"no process has the lease of {RELAYER.address}: start one with `florin worker`"
    }
    name = lease_of(lab.lab.rail, RELAYER.address)
    now_us = lab.lab.clock.now_us()
    assert await lab.store.write(leases.acquire(name, "other", now_us, 25 * S, steal=False))
    await looks(lab, onlooker)
    assert list(told(onlooker)) == [LEASED]


async def test_keys_elsewhere_are_executors_that_can_be_paused(lab, onlooker):
    app = app_of(lab.app, [onlooker])
    account = f"{CHAIN}:{RELAYER.address}"
    await lab.lab.fund(WALLET)
    await lab.accepted(WALLET)
    await lab.turn(2)
    await looks(lab, onlooker)
    (found,) = await executors.listed(app)
    assert (found.id, found.paused_at_us, found.open_transactions) == (account, None, 1)
    # written down, for who sends
    assert (await executors.pause(app, account)).paused_at_us is not None
    assert (await executors.resume(app, account)).paused_at_us is None


async def test_a_head_that_cannot_be_read_is_asked_for_by_callers(lab, onlooker, monkeypatch):
    await until(lambda: onlooker.head)

    async def silent():
        raise RailUnavailable("no answer")

    monkeypatch.setattr(lab.lab.rail.observer, "head", silent)
    await lab.lab.mine()
    await until(lambda: onlooker.head, 0)


@pytest.mark.parametrize("broken", ["_see", "_look"])
async def test_onlooker_that_fails_leaves_nothing_running(lab, monkeypatch, broken):
    made = Onlooker.of_settlers(lab.app, lab.lab.rail)

    async def fails() -> None:
        raise ValueError("nobody expects that")

    monkeypatch.setattr(made, broken, fails)
    before = asyncio.all_tasks()
    with pytest.raises(ValueError, match="nobody expects"):
        await made.run()
    assert asyncio.all_tasks() <= before
