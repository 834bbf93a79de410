"""Conditions are the store's: two services answer alike, and a restart keeps their times."""

from __future__ import annotations

from contextlib import suppress

import pytest
from florin_server.boot.service import Service
from florin_server.domain.conditions import Condition, ConditionName, State
from florin_server.domain.quarantine import ItemKind, ItemState, QuarantinedItem
from florin_server.flows.operator import conditions
from florin_server.rails.types import Shortage
from florin_server.store.quarantine import items
from florin_server.workers.housekeeping.report_conditions import ConditionReporter

from tests.support import postgres
from tests.support.own_chain import CHAIN
from tests.support.pair import Pair, paired
from tests.support.service import running
from tests.support.until import until

pytestmark = pytest.mark.long
needs_postgres = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
)
FUNDS, LEASED = ConditionName.RELAYER_FUNDS_LOW, ConditionName.SETTLEMENT_LEASED_ELSEWHERE
POOR = "the relayer holds 1 wei"


async def answered(service: Service) -> dict[tuple[str, ConditionName], Condition]:
    """What is wrong, as a service answers it."""
    found = await conditions.answer(service.app)
    return {
        (subject, one.name): one
        for subject, stated in found.items()
        for one in stated
        if one.state is not State.OK
    }


@pytest.fixture
async def two(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with paired(*folders) as pair:
        yield pair


def starve(monkeypatch, service: Service) -> None:
    """Has the settler of a service find that its relayer has no money."""

    async def shortages() -> tuple[Shortage, ...]:
        return (Shortage(POOR, is_empty=False),)

    monkeypatch.setattr(service.app.rails[CHAIN].relay, "shortages", shortages)


async def alike(two: Pair) -> dict[tuple[str, ConditionName], Condition] | None:
    """What both answer, once it is the same and the settler has found what it is to find."""
    here, there = await answered(two.desk.service), await answered(two.other)
    is_found = (CHAIN, FUNDS) in here and here[CHAIN, FUNDS].reason == POOR
    return here if is_found and here == there else None


@needs_postgres
async def test_what_the_lease_holder_alone_knows_is_answered_alike_and_survives_its_death(
    two, monkeypatch
):
    async def passing() -> None:
        two.desk.clock.advance(1)

    leader, other = two.desk.service, two.other
    assert leader.app.settlers[CHAIN].leases
    assert not other.app.settlers[CHAIN].leases
    starve(monkeypatch, leader)
    before = await until(lambda: alike(two), meanwhile=passing)
    # what is about one process names it
    named = f"process {other.app.process.label}: another settler has the lease"
    assert before[CHAIN, LEASED].reason == named

    # as a killed process leaves it: nothing is given back
    for task in leader.workers.tasks:
        task.cancel()
        with suppress(BaseException):
            await task
    assert (await answered(other))[CHAIN, FUNDS] == before[CHAIN, FUNDS]
    starve(monkeypatch, other)
    await until(lambda: other.app.settlers[CHAIN].leases, meanwhile=passing)
    two.desk.clock.advance(60)
    await until(lambda: not other.app.settlers[CHAIN].health().has(LEASED), meanwhile=passing)
    await ConditionReporter(other.app).report()
    assert (await answered(other))[CHAIN, FUNDS] == before[CHAIN, FUNDS]

    # the next holder rewrites them
    monkeypatch.undo()

    async def is_well() -> bool:
        return (CHAIN, FUNDS) not in await answered(other)

    await until(is_well, meanwhile=passing)


async def test_condition_lasts_since_the_same_time_over_a_restart(tmp_path):
    item = QuarantinedItem(
        id="qitm_1",
        kind=ItemKind.PAYMENT,
        chain_id="",
        subject="pay_1",
        step="conclude",
        reason="ValueError: no",
        state=ItemState.SET_ASIDE,
        attempts=1,
        first_at_us=1,
        last_at_us=1,
    )
    key = conditions.INSTALLATION, ConditionName.ITEM_SET_ASIDE
    async with running(tmp_path / "home") as service:
        await service.app.store.write(items.put(item))
        await ConditionReporter(service.app).report()
        before = (await answered(service))[key]
    async with running(tmp_path / "home") as service:
        assert (await answered(service))[key] == before
        await ConditionReporter(service.app).report()
        assert (await answered(service))[key] == before
