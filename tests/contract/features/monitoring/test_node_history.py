"""Test that all processes add what they observe of nodes to the same bounded rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from florin_server.base.clock import TestClock
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.node_hours import HOUR_US, HOURS_KEPT, NodeErrorKind
from florin_server.features.monitoring.service.node_history import list_node_history
from florin_server.features.monitoring.store import node_hours
from florin_server.features.monitoring.worker.node_history import NodeHistoryWorker
from florin_server.rails.connection.jsonrpc import NodeTimeout, RateLimited
from florin_server.rails.types import RailUnavailable

from tests.support.endpoint_harness import EndpointHarness, StubNode
from tests.support.store_factories import NOW_US

CHAIN = "eip155:31337"
QUESTION = ("eth_getBalance", ("0x1", "latest"))


class HistoryProcess:
    """A process with two nodes, whose answers and clock the test controls."""

    def __init__(self, store: Any, clock: TestClock) -> None:
        self.first, self.second = StubNode(head=100), StubNode(head=100)
        self.endpoints = EndpointHarness(self.first, self.second)
        rail = SimpleNamespace(nodes=self.endpoints.rpc)
        self.app: Any = SimpleNamespace(store=store, clock=clock, rails={CHAIN: rail})
        self.worker = NodeHistoryWorker(self.app)

    async def observe(self, checks: int = 1) -> None:
        """Check the nodes, and write what was observed."""
        for _ in range(checks):
            self.worker.check()
        await self.worker.write()

    async def read(self) -> dict[str, Any]:
        return {history.name: history.hours for history in await list_node_history(self.app)}


@pytest.fixture
def clock() -> TestClock:
    return TestClock(NOW_US - NOW_US % HOUR_US)


@pytest.fixture
async def process(store, clock) -> HistoryProcess:
    process = HistoryProcess(store, clock)
    await process.endpoints.ready()
    return process


async def test_node_without_observations_has_no_hours(store, clock):
    process = HistoryProcess(store, clock)
    await process.observe(checks=3)
    assert await process.read() == {"node0.example": (), "node1.example": ()}


async def test_hour_has_health_lag_answers_and_errors(process):
    process.first.head = 90
    await process.endpoints.later(15)
    await process.observe(checks=4)
    hours = await process.read()
    (lagging,), (good,) = hours["node0.example"], hours["node1.example"]
    assert (lagging.checks, lagging.healthy_checks, lagging.lag_max) == (4, 0, 10)
    assert lagging.lag == 5  # two probes, the first at the head
    assert (good.checks, good.healthy_checks, good.lag_max) == (4, 4, 0)
    assert sum(good.answers) == 2
    assert not any(good.errors.values())


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (NodeTimeout("did not answer in time"), NodeErrorKind.TIMEOUTS),
        (RateLimited("HTTP 429", 5.0), NodeErrorKind.RATE_LIMITED),
        (RailUnavailable("ClientConnectorError"), NodeErrorKind.UNREACHABLE),
    ],
)
async def test_errors_count_by_kind(process, fault, kind):
    process.first.fault = fault
    await process.endpoints.rpc.batch([QUESTION])
    await process.observe()
    (hour,) = (await process.read())["node0.example"]
    assert {name: count for name, count in hour.errors.items() if count} == {kind: 1}
    assert (hour.checks, hour.healthy_checks) == (1, 0)


async def test_node_of_another_chain_counts_as_such(process):
    process.first.chain = 5
    await process.endpoints.later(15)
    await process.observe()
    (hour,) = (await process.read())["node0.example"]
    assert hour.errors[NodeErrorKind.WRONG_CHAIN] == 1


async def test_processes_add_to_the_same_hour(store, clock, process):
    other = HistoryProcess(store, clock)
    await other.endpoints.ready()
    await process.observe(checks=2)
    await other.observe(checks=3)
    await process.observe()
    for history in (await process.read(), await other.read()):
        (hour,) = history["node1.example"]
        assert (hour.checks, hour.healthy_checks) == (6, 6)


async def test_only_forty_eight_hours_are_kept(store, clock, process):
    for _ in range(HOURS_KEPT + 5):
        await process.observe()
        clock.advance(HOUR_US / 1e6)
    await process.observe()
    assert len((await process.read())["node0.example"]) == HOURS_KEPT
    rows = await store.read(node_hours.list_hours(0))
    assert {len(hours) for hours in rows.values()} == {HOURS_KEPT}


async def test_observations_wait_while_the_store_is_away(store, process, monkeypatch):
    with monkeypatch.context() as patch:

        async def fail(op: Any) -> None:
            raise StoreUnavailable("away")

        patch.setattr(process.app, "store", SimpleNamespace(write=fail))
        with pytest.raises(StoreUnavailable):
            await process.observe(checks=2)
    await process.observe()
    (hour,) = (await process.read())["node0.example"]
    assert hour.checks == 3
