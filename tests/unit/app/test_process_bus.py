"""Test messages between processes: others receive exactly what was published."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.app.process_bus import debouncer
from florin_server.app.process_bus.debouncer import Debouncer
from florin_server.app.process_bus.sender import get_backoff_s
from florin_server.base.meters import Meters
from florin_server.base.process_bus import BusMessage, ProcessBus, parse_message
from florin_server.base.topics import Topic
from florin_server.db.engine.notices import NOTIFICATION_BYTES_MAX
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.errors import ApiError, ErrorCode

OWN, OTHER = "0123456789abcdef", "fedcba9876543210"
CHAIN = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"


def counted(meters: Meters) -> dict[str, float]:
    get_sample_value = meters.registry.get_sample_value
    return {
        item: get_sample_value("florin_hints_total", {"hint": item})
        for item in ("heard", "dropped", "ignored")
    }


async def texts(hints: ProcessBus) -> list[tuple[str, int]]:
    """Return all pending messages."""
    results = []
    while hints._payments or hints._tokens:  # noqa: SLF001  (taking waits for more)
        results.append(await hints.next_message())
    return results


async def test_published_hints_are_received_by_a_peer():
    hints, there = ProcessBus(OWN), ProcessBus(OTHER)
    hints.publish_payment("pay_1", 3)
    hints.publish_payment("pay_2", 1)
    hints.publish(Topic.PAYOUT, "pout_1")
    hints.publish(Topic.PAYOUT, "rfnd_1")
    hints.publish(Topic.SETTLEMENT, CHAIN)
    hints.publish(Topic.RECEIVERS, "eip155:1")
    hints.publish(Topic.PAYOUTS_DUE, "")
    hints.publish(Topic.ACCOUNTS, "")
    ((text, count),) = await texts(hints)
    message = there.receive(text)
    assert message == BusMessage(
        {"pay_1": 3, "pay_2": 1},
        {
            Topic.PAYOUT: {"pout_1", "rfnd_1"},
            Topic.SETTLEMENT: {CHAIN},
            Topic.RECEIVERS: {"eip155:1"},
            Topic.PAYOUTS_DUE: {""},
        },
        invalidates_caches=True,
    )
    assert count == len(message) == 8


CACHED = [Topic.ACCOUNTS, Topic.SCREENING, Topic.EXECUTORS, Topic.QUARANTINE]


@pytest.mark.parametrize(
    ("topic", "key", "token"),
    [
        (Topic.PAYOUT, "pout_1", "o:pout_1"),
        (Topic.SETTLEMENT, CHAIN, f"s:{CHAIN}"),
        (Topic.RECEIVERS, CHAIN, f"r:{CHAIN}"),
        (Topic.PAYOUTS_DUE, "", "w"),
        *((topic, "", "g") for topic in CACHED),
    ],
)
async def test_processes_of_other_releases_can_read_a_topic(topic, key, token):
    hints = ProcessBus(OWN)
    hints.publish(topic, key)
    assert await texts(hints) == [(f"1 {OWN} {token}", 1)]


async def test_unknown_kinds_are_not_sent_to_other_releases():
    """Those processes would ignore the rest of the message, too."""
    hints = ProcessBus(OWN)
    hints.publish(Topic.WEBHOOKS, "")
    for topic in (Topic.PAYOUT, Topic.SETTLEMENT, Topic.RECEIVERS):
        with pytest.raises(ValueError, match="have a key"):
            hints.publish(topic, "")
    assert await texts(hints) == []


async def test_repeated_hints_are_sent_once_with_the_newest_version():
    hints = ProcessBus(OWN)
    for version in (1, 3, 2):
        hints.publish_payment("pay_1", version)
        hints.publish(Topic.PAYOUTS_DUE, "")
    ((text, count),) = await texts(hints)
    assert count == 2
    assert parse_message(text)[1].payment_versions == {"pay_1": 3}


async def test_waiting_sender_gets_the_next_hint():
    hints = ProcessBus(OWN)
    waits = asyncio.create_task(hints.next_message())
    await asyncio.sleep(0)
    assert not waits.done()
    hints.publish(Topic.SETTLEMENT, CHAIN)
    assert await waits == (f"1 {OWN} s:{CHAIN}", 1)


async def test_texts_are_short_and_nothing_is_left_out():
    hints, named = ProcessBus(OWN), {f"pay_{n:027}": n for n in range(1000)}
    for payment_id, version in named.items():
        hints.publish_payment(payment_id, version)
    hints.publish(Topic.PAYOUTS_DUE, "")
    results = await texts(hints)
    assert all(len(text.encode()) < NOTIFICATION_BYTES_MAX for text, _ in results)
    assert 4 < len(results) < 10
    messages = [parse_message(text)[1] for text, _ in results]
    assert {k: v for message in messages for k, v in message.payment_versions.items()} == named
    # messages for workers come before those for watchers
    assert [Topic.PAYOUTS_DUE in message.keys for message in messages] == [
        True,
        *[False] * (len(results) - 1),
    ]


async def test_pending_hints_are_bounded():
    meters = Meters()
    hints = ProcessBus(OWN, meters)
    for number in range(12_000):
        hints.publish_payment(f"pay_{number}", 1)
    hints.publish(Topic.PAYOUT, "pout_1")
    # a pending message can still get a newer version
    hints.publish_payment("pay_1", 2)
    assert counted(meters)["dropped"] == 2001
    assert sum([count for _, count in await texts(hints)]) == 10_000


async def test_bus_without_an_origin_stores_nothing():
    hints = ProcessBus()
    hints.publish_payment("pay_1", 1)
    hints.publish(Topic.ACCOUNTS, "")
    assert not hints.is_enabled
    assert await texts(hints) == []


def test_own_hints_are_ignored():
    meters = Meters()
    assert ProcessBus(OWN, meters).receive(f"1 {OWN} w") is None
    assert counted(meters) == {"heard": 0, "dropped": 0, "ignored": 0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1",
        f"1 {OTHER}",
        f"1 {OTHER} ",
        f"2 {OTHER} w",
        f"1 {OTHER.upper()} w",
        f"1 {OTHER}0 w",
        f"1 {OTHER}  w",
        f"1 {OTHER} w ",
        f"1 {OTHER} w\n",
        f"1 {OTHER} x",
        f"1 {OTHER} w g pay_1",
        f"1 {OTHER} p:pay_1",
        f"1 {OTHER} p:-1:pay_1",
        f"1 {OTHER} p:1:",
        f"1 {OTHER} p:٣:pay_1",
        f"1 {OTHER} p:{'9' * 19}:pay_1",
        f"1 {OTHER} p:1:pay_1;DROP",
        f"1 {OTHER} o:{'a' * 129}",
        f"1 {OTHER} w " + "[" * 7000,
    ],
)
def test_malformed_hint_is_counted_and_ignored(text):
    meters = Meters()
    assert ProcessBus(OWN, meters).receive(text) is None
    assert counted(meters) == {"heard": 0, "dropped": 0, "ignored": 1}


class Work:
    """A job that counts its runs; it raises the error that a test sets."""

    def __init__(self) -> None:
        self.done = 0
        self.faults: list[Exception] = []
        self.seen = asyncio.Event()

    async def __call__(self) -> None:
        self.done += 1
        self.seen.set()
        if self.faults:
            raise self.faults.pop()

    async def again(self) -> None:
        await self.seen.wait()
        self.seen.clear()


async def test_continuous_requests_are_debounced(monkeypatch):
    pauses: list[float] = []
    over = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await over.wait()

    work = Work()
    looks = Debouncer(work, 0.05)
    monkeypatch.setattr(debouncer.asyncio, "sleep", pause)
    running = asyncio.create_task(looks.run())
    looks.trigger()
    await work.again()
    for _ in range(1000):
        looks.trigger()
    assert (work.done, pauses) == (1, [0.05])
    over.set()
    await work.again()
    assert work.done == 2
    running.cancel()


@pytest.mark.parametrize(
    "fault", [StoreUnavailable("away"), ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True)]
)
async def test_debounced_work_continues_after_an_outage(fault):
    work = Work()
    work.faults.append(fault)
    looks = Debouncer(work, 0)
    running = asyncio.create_task(looks.run())
    for _ in range(2):
        looks.trigger()
        await work.again()
    assert not running.done()
    running.cancel()


def test_attempts_come_less_and_less_often():
    waits = [get_backoff_s(failures) for failures in (0, 1, 2, 5, 6, 10**6)]
    assert waits == [0.1, 0.2, 0.4, 3.2, 5.0, 5.0]
