"""Conditions are in the store: two services report the same, and a restart keeps their times."""

from __future__ import annotations

from contextlib import suppress

import pytest
from florin_server.app.service import FlorinService
from florin_server.domain.conditions import Condition, ConditionName, ConditionState
from florin_server.domain.quarantine import (
    QuarantinedItem,
    QuarantinedItemKind,
    QuarantinedItemState,
)
from florin_server.features.monitoring.service import conditions
from florin_server.features.monitoring.worker.conditions import ConditionReportWorker
from florin_server.operations.store import quarantine as items
from florin_server.rails.types import GasShortage

from tests.support import postgres
from tests.support.health import has_condition
from tests.support.own_chain import CHAIN
from tests.support.service import run_service
from tests.support.service_pair import ServicePair, open_pair
from tests.support.until import wait_until

pytestmark = pytest.mark.long
needs_postgres = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)
FUNDS, LEASED = ConditionName.RELAYER_FUNDS_LOW, ConditionName.SETTLEMENT_LEASED_ELSEWHERE
POOR = "the relayer holds 1 wei"


async def answered(service: FlorinService) -> dict[tuple[str, ConditionName], Condition]:
    """Return the conditions that a service reports."""
    found_conditions = await conditions.list_conditions(service.app)
    return {
        (subject, condition.name): condition
        for subject, stated in found_conditions.items()
        for condition in stated
        if condition.state is not ConditionState.OK
    }


@pytest.fixture
async def two(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    async with open_pair(*folders) as pair:
        yield pair


def starve(monkeypatch, service: FlorinService) -> None:
    """Make a service's settler find that its relayer has no money."""

    async def shortages() -> tuple[GasShortage, ...]:
        return (GasShortage(POOR, is_empty=False),)

    monkeypatch.setattr(service.app.rails[CHAIN].relay, "list_shortages", shortages)


async def alike(two: ServicePair) -> dict[tuple[str, ConditionName], Condition] | None:
    """Return both services' conditions, once they agree and the settler has found its problem."""
    here, there = await answered(two.service.service), await answered(two.other)
    is_found = (CHAIN, FUNDS) in here and here[CHAIN, FUNDS].reason == POOR
    return here if is_found and here == there else None


@needs_postgres
async def test_conditions_of_the_lease_holder_are_shared_and_survive_its_death(two, monkeypatch):
    async def passing() -> None:
        two.service.clock.advance(1)

    leader, other = two.service.service, two.other
    assert leader.app.settlers[CHAIN].leases
    assert not other.app.settlers[CHAIN].leases
    starve(monkeypatch, leader)
    before = await wait_until(lambda: alike(two), meanwhile=passing)
    # conditions of one process name it
    named = f"process {other.app.process_name.label}: another process has the lease"
    assert before[CHAIN, LEASED].reason == named

    # as a killed process leaves it: no lease is released
    for task in leader.workers.tasks:
        task.cancel()
        with suppress(BaseException):
            await task
    assert (await answered(other))[CHAIN, FUNDS] == before[CHAIN, FUNDS]
    starve(monkeypatch, other)
    looked = await conditions.list_local_conditions(other.app)
    await wait_until(lambda: other.app.settlers[CHAIN].leases, meanwhile=passing)
    # what it found before says nothing of the work that it has now
    reports = list(conditions.list_own_reports(other.app, looked))
    assert [report.source.epoch for report in reports] == [None]
    two.service.clock.advance(60)
    await wait_until(
        lambda: not has_condition(other.app.settlers[CHAIN].health(), LEASED), meanwhile=passing
    )
    await ConditionReportWorker(other.app).report()
    assert (await answered(other))[CHAIN, FUNDS] == before[CHAIN, FUNDS]

    # the next holder rewrites them
    monkeypatch.undo()

    async def is_well() -> bool:
        return (CHAIN, FUNDS) not in await answered(other)

    await wait_until(is_well, meanwhile=passing)


async def test_condition_lasts_since_the_same_time_over_a_restart(tmp_path):
    item = QuarantinedItem(
        id="qitm_1",
        kind=QuarantinedItemKind.PAYMENT,
        chain_id="",
        subject="pay_1",
        step="conclude",
        reason="ValueError: no",
        state=QuarantinedItemState.SET_ASIDE,
        attempts=1,
        first_at_us=1,
        last_at_us=1,
    )
    key = conditions.INSTALLATION, ConditionName.ITEM_SET_ASIDE
    async with run_service(tmp_path / "home") as service:
        await service.app.store.write(items.put(item))
        await ConditionReportWorker(service.app).report()
        before = (await answered(service))[key]
    async with run_service(tmp_path / "home") as service:
        assert (await answered(service))[key] == before
        await ConditionReportWorker(service.app).report()
        assert (await answered(service))[key] == before
