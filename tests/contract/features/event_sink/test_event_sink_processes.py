"""Test processes of one installation whose settings of the event sink differ."""

from __future__ import annotations

import pytest
from florin_server.domain.conditions import ConditionName, ConditionState
from florin_server.features.event_sink.store import destination
from florin_server.features.event_sink.store.destination import SinkDestination
from florin_server.features.monitoring.service import health
from florin_server.settings.event_sink import list_addresses

from tests.support.event_sink import SinkHarness, list_places
from tests.support.nats_server import serve_nats
from tests.support.until import wait_until

pytestmark = pytest.mark.long

URL = "nats://broker.example"
INSTALLED = SinkDestination(1, ("one:4222", "two:4222"), "florin_events", "florin.events")


@pytest.fixture
async def brokers(tmp_path):
    async with serve_nats(tmp_path / "one") as first, serve_nats(tmp_path / "two") as second:
        yield first, second


@pytest.fixture
def shared(shop):
    """Return a store that several processes share."""
    if shop.is_exclusive:
        pytest.skip("SQLite has one process")
    return shop


async def test_restarts_of_processes_with_and_without_the_sink_lose_no_event(shared, tmp_path):
    with_sink = SinkHarness(shared, tmp_path, URL)
    without = SinkHarness(shared, tmp_path, "")
    await with_sink.start()
    for number in range(1, 4):
        await without.start()
        await with_sink.create()
        assert await with_sink.count_waiting() == number
        await with_sink.start()
    assert with_sink.difference == ""
    assert "name no event sink" in without.difference
    assert "stream florin_events at broker.example:4222" in without.difference


async def test_single_process_needs_no_revision(shop, tmp_path):
    if not shop.is_exclusive:
        pytest.skip("PostgreSQL can have several processes")
    for url, count in ((URL, 1), ("", 1), ("nats://other.example", 2)):
        sink = SinkHarness(shop, tmp_path, url)
        await sink.start()
        await sink.create()
        assert await sink.count_waiting() == count
        assert sink.difference == ""


async def test_process_with_another_broker_publishes_nothing_and_is_reported(
    shared, brokers, tmp_path
):
    installed, other = brokers
    first = SinkHarness(shared, tmp_path, installed.url)
    second = SinkHarness(shared, tmp_path, other.url)
    async with first.publish("first"):
        payment = await first.create()
        await first.wait_published()
    await first.cancel(payment)
    async with second.publish("second"):
        await wait_until(lambda: "the settings of this process" in second.difference)
        for _ in range(10):
            await second.advance()
        assert await second.count_waiting() == 1
        conditions = await health.list_installation_conditions(second.core)
        (condition,) = [c for c in conditions if c.name is ConditionName.EVENT_SINK_DIFFERS]
        assert condition.state is ConditionState.WARNING
        assert condition.reason == second.difference
        assert await shared.read(destination.find_installed()) == first.own
    async with first.publish("first"):
        await first.wait_published()
    assert list_places(await installed.list_messages()) == {payment.id: [0, 1]}
    assert await other.list_messages() == []


async def test_higher_revision_moves_the_sink_and_keeps_every_event_in_order(
    shared, brokers, tmp_path
):
    source, target = brokers
    former = SinkHarness(shared, tmp_path, source.url)
    latter = SinkHarness(shared, tmp_path, target.url, revision=2)
    async with former.publish("former"):
        payments = [await former.create() for _ in range(10)]
        await former.wait_waiting_below(10)
        async with latter.publish("latter"):
            await wait_until(lambda: former.difference, meanwhile=former.advance)
            assert "of revision 1" in former.difference
            for payment in payments:
                await latter.cancel(payment)
            await latter.wait_published()
            # it restarts with its former settings
            await former.start()
            assert former.difference
            assert latter.difference == ""
    before, after = [list_places(await broker.list_messages()) for broker in brokers]
    for payment in payments:
        assert [*before.get(payment.id, ()), *after.get(payment.id, ())] == [0, 1]
        assert after[payment.id][-1] == 1


async def test_higher_revision_turns_the_sink_off_and_on(shared, tmp_path):
    on = SinkHarness(shared, tmp_path, URL)
    off = SinkHarness(shared, tmp_path, "", revision=2)
    again = SinkHarness(shared, tmp_path, URL, revision=3)
    for sink, count in ((on, 1), (off, 1), (on, 1), (again, 2), (off, 3), (on, 4)):
        await sink.start()
        await sink.create()
        assert await sink.count_waiting() == count
    assert "name no event sink" in off.difference
    assert on.difference == again.difference == ""


@pytest.mark.parametrize(
    ("hosts", "stream", "expected"),
    [
        (("two:4222", "three:4222"), "florin_events", True),
        (("three:4222",), "florin_events", False),
        (("one:4222",), "others", False),
        ((), "", False),
    ],
)
def test_destinations_with_a_host_in_common_are_the_same(hosts, stream, expected):
    other = SinkDestination(2, hosts, stream, "florin.events")
    assert INSTALLED.is_same(other) is expected
    assert other.is_same(INSTALLED) is expected
    assert bool(INSTALLED.describe_difference(other)) is not expected


def test_destination_is_read_as_it_was_written():
    assert SinkDestination.parse(1, INSTALLED.to_text()) == INSTALLED
    url = "nats://Two.example, [::1]:7, one.example:4222"
    assert list_addresses(url) == ["[::1]:7", "one.example:4222", "two.example:4222"]
