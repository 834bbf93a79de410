"""Test the conditions of a chain: names, states and times."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import Condition, ConditionName, ConditionState
from florin_server.features.monitoring.service import health, system
from florin_server.operations.service.executors import pause, resume
from florin_server.rails.types import GasShortage

from tests.support.evm_harness import RELAYER, make_buyer
from tests.support.settlement_harness import CHAIN, SettlementHarness, open_settlement_harness

EXECUTOR = f"{CHAIN}:{RELAYER.address}"


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def condition(shop: SettlementHarness, name: ConditionName) -> Condition:
    """Return a condition as the operator sees it."""
    (chain,) = (await system.get_status(shop.app)).chains
    (found_condition,) = [
        each_condition for each_condition in chain.conditions if each_condition.name is name
    ]
    return found_condition


async def test_a_chain_has_each_condition_once_and_all_are_well(shop):
    (chain,) = (await system.get_status(shop.app)).chains
    names = [each_condition.name for each_condition in chain.conditions]
    assert names == [name for name in ConditionName if name in set(names)]
    assert {each_condition.state for each_condition in chain.conditions} == {ConditionState.OK}
    installation = await health.list_installation_conditions(shop.app)
    elsewhere = {name for name in ConditionName if name.startswith("payout_")}
    elsewhere |= {
        ConditionName.PAYOUTS_PAUSED,
        ConditionName.STORE_RESTORED,
        ConditionName.STORE_BEHIND,
        ConditionName.PAYOUTS_STARTING,
        ConditionName.PAYOUTS_LEASED_ELSEWHERE,
        ConditionName.PAYOUTS_FAILING,
    }
    # no payouts on this chain
    assert {*names, *(each_condition.name for each_condition in installation)} == set(
        ConditionName
    ) - elsewhere


async def test_a_pause_is_a_notice_since_it_began(shop):
    clock = shop.lab.clock
    clock.advance(60)
    since_us = clock.now_us()
    await pause(shop.app, EXECUTOR)
    await shop.turn()
    clock.advance(60)
    paused = await condition(shop, ConditionName.SETTLEMENT_PAUSED)
    assert (paused.state, paused.since_us) == (ConditionState.NOTICE, since_us)
    until_us = clock.now_us()
    await resume(shop.app, EXECUTOR)
    await shop.turn()
    clock.advance(60)
    paused = await condition(shop, ConditionName.SETTLEMENT_PAUSED)
    assert (paused.state, paused.reason, paused.since_us) == (ConditionState.OK, "", until_us)


async def test_conditions_with_similar_texts_are_separate(shop, monkeypatch):
    """ "paused" is part of both texts: a paused token and a paused settler are two conditions."""
    await pause(shop.app, EXECUTOR)

    async def problems():
        return ("paused",)

    monkeypatch.setattr(shop.lab.rail, "list_problems", problems)
    assert (await condition(shop, ConditionName.SETTLEMENT_PAUSED)).state is ConditionState.NOTICE
    assert (await condition(shop, ConditionName.CHAIN_UNUSABLE)).state is ConditionState.CRITICAL
    (chain,) = (await system.get_status(shop.app)).chains
    assert chain.problem == "paused by the operator; paused"


async def test_other_words_change_no_alarm(shop, monkeypatch):
    texts = iter([("no coin",), ("kein Geld mehr",)])

    async def shortages():
        return tuple(GasShortage(text, is_empty=False) for text in next(texts))

    monkeypatch.setattr(shop.lab.rail.relay, "list_shortages", shortages)
    clock, conditions = shop.lab.clock, []
    for _ in range(2):
        clock.advance(10)
        await shop.turn()
        conditions.append(await condition(shop, ConditionName.RELAYER_FUNDS_LOW))
    first, second = conditions
    assert (first.reason, second.reason) == ("no coin", "kein Geld mehr")
    assert (second.state, second.since_us) == (first.state, first.since_us)
    assert first.state is ConditionState.WARNING


async def test_a_confirm_looks_at_no_other_payment(shop, monkeypatch):
    def refuse():
        raise AssertionError("a confirm requested the health of the chain")

    await shop.create_processing_payment(make_buyer(5))
    with monkeypatch.context() as patched:
        patched.setattr(shop.settler, "health", refuse)
        payment = await shop.create_processing_payment(make_buyer(6))
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_turns_between_blocks_look_at_no_other_payment(shop, monkeypatch):
    """Each accepted payment costs a turn, even while thousands of payments are open."""
    await shop.create_processing_payment(make_buyer(5))
    await shop.turn(2)
    looks = 0
    health = shop.settler.health

    def counted():
        nonlocal looks
        looks += 1
        return health()

    with monkeypatch.context() as patched:
        patched.setattr(shop.settler, "health", counted)
        await shop.turn(5)
        assert looks == 0
        await shop.lab.mine()
        await shop.turn()
    assert looks == 1


async def test_turns_are_counted_from_the_first_on(shop):
    """A graph of turns reveals a stopped settler and one that loops without work."""
    assert shop.settler.health().turn_count == 1
    await shop.turn(3)
    assert shop.settler.health().turn_count == 4
