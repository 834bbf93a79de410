"""How a chain is doing, as conditions: by name, with a state and a time."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import Condition, ConditionName, State
from florin_server.flows.operator import health, system
from florin_server.flows.operator.executors import pause, resume
from florin_server.rails.types import Shortage

from tests.support.evm_lab import RELAYER, buyer
from tests.support.settler_lab import CHAIN, Works, works

EXECUTOR = f"{CHAIN}:{RELAYER.address}"


@pytest.fixture
async def shop(tmp_path):
    async with works(tmp_path) as running:
        yield running


async def condition(shop: Works, name: ConditionName) -> Condition:
    """One condition as the operator is told it."""
    (chain,) = await system.chains(shop.app)
    (found,) = [one for one in chain.conditions if one.name is name]
    return found


async def test_a_chain_has_each_condition_once_and_all_are_well(shop):
    (chain,) = await system.chains(shop.app)
    names = [one.name for one in chain.conditions]
    assert names == [one for one in ConditionName if one in set(names)]
    assert {one.state for one in chain.conditions} == {State.OK}
    installation = await health.of_installation(shop.app)
    elsewhere = {one for one in ConditionName if one.startswith("payout_")}
    elsewhere |= {
        ConditionName.PAYOUTS_PAUSED,
        ConditionName.STORE_RESTORED,
        ConditionName.STORE_BEHIND,
        ConditionName.PAYOUTS_STARTING,
        ConditionName.PAYOUTS_LEASED_ELSEWHERE,
        ConditionName.PAYOUTS_FAILING,
    }
    # nobody pays out here
    assert {*names, *(one.name for one in installation)} == set(ConditionName) - elsewhere


async def test_a_pause_is_a_notice_since_it_began(shop):
    clock = shop.lab.clock
    clock.advance(60)
    since_us = clock.now_us()
    await pause(shop.app, EXECUTOR)
    await shop.turn()
    clock.advance(60)
    paused = await condition(shop, ConditionName.SETTLEMENT_PAUSED)
    assert (paused.state, paused.since_us) == (State.NOTICE, since_us)
    until_us = clock.now_us()
    await resume(shop.app, EXECUTOR)
    await shop.turn()
    clock.advance(60)
    paused = await condition(shop, ConditionName.SETTLEMENT_PAUSED)
    assert (paused.state, paused.reason, paused.since_us) == (State.OK, "", until_us)


async def test_words_that_are_part_of_others_are_a_condition_of_their_own(shop, monkeypatch):
    """A token may be called paused while the settler is paused: they are two things."""
    await pause(shop.app, EXECUTOR)

    async def problems():
        return ("paused",)

    monkeypatch.setattr(shop.lab.rail, "problems", problems)
    assert (await condition(shop, ConditionName.SETTLEMENT_PAUSED)).state is State.NOTICE
    assert (await condition(shop, ConditionName.CHAIN_UNUSABLE)).state is State.CRITICAL
    (chain,) = await system.chains(shop.app)
    assert chain.problem == "paused by the operator; paused"


async def test_other_words_change_no_alarm(shop, monkeypatch):
    texts = iter([("no coin",), ("kein Geld mehr",)])

    async def shortages():
        return tuple(Shortage(one, is_empty=False) for one in next(texts))

    monkeypatch.setattr(shop.lab.rail.relay, "shortages", shortages)
    clock, found = shop.lab.clock, []
    for _ in range(2):
        clock.advance(10)
        await shop.turn()
        found.append(await condition(shop, ConditionName.RELAYER_FUNDS_LOW))
    first, second = found
    assert (first.reason, second.reason) == ("no coin", "kein Geld mehr")
    assert (second.state, second.since_us) == (first.state, first.since_us)
    assert first.state is State.WARNING


async def test_a_confirm_looks_at_no_other_payment(shop, monkeypatch):
    def refuse():
        raise AssertionError("a confirm asked for the health of the chain")

    await shop.accepted(buyer(5))
    with monkeypatch.context() as patched:
        patched.setattr(shop.settler, "health", refuse)
        payment = await shop.accepted(buyer(6))
    assert (await shop.end(payment)).status == "succeeded"


async def test_turns_between_blocks_look_at_no_other_payment(shop, monkeypatch):
    """There are as many turns as payments are accepted, also while thousands are open."""
    await shop.accepted(buyer(5))
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
    """A graph of them tells a settler that stands still, and one that goes round for nothing."""
    assert shop.settler.health().turns == 1
    await shop.turn(3)
    assert shop.settler.health().turns == 4
