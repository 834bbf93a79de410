"""Test how a process reacts to notifications: it reads what it watches, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from florin_server.app.app import build_app, build_core
from florin_server.app.core import App
from florin_server.app.process_bus.cache_refresher import CacheRefresher
from florin_server.app.process_bus.jobs import get_jobs
from florin_server.app.process_bus.listener import BusListener
from florin_server.base.clock import TestClock
from florin_server.base.process_bus import ProcessBus
from florin_server.base.topics import Topic
from florin_server.compliance.screening import store as blocklists
from florin_server.db import generations
from florin_server.db.engine.query import StoreUnavailable
from florin_server.db.generations import CacheKind
from florin_server.domain.payments.payment import CancellationReason
from florin_server.domain.screening.blocklist import ScreeningList
from florin_server.money.payments.store import payments
from florin_server.settings import Settings

from tests.support.store_factories import LATER_US, NOW_US, create_payment
from tests.support.until import PATIENCE_S, wait_until

BAD = ("eip155", "0x" + "66" * 20)
# reads of a payment, alone or with others
READS = {"find", "find_many"}
FOREIGN = "1 fedcba9876543210 "


class Wire:
    """A bus with the notifications that a test sends."""

    def __init__(self) -> None:
        self.heard: Callable[[str], None] = lambda _text: None
        self.started: Callable[[], None] = lambda: None
        self.messages: list[str] = []

    async def publish(self, text: str) -> None:
        self.messages.append(text)

    async def listen(self, clock, on_start, on_message) -> None:
        self.heard, self.started = on_message, on_start
        on_start()
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


class Process:
    """A process that receives a test's notifications; `read_names` has the names of its reads."""

    def __init__(self, app: App, store, patch: pytest.MonkeyPatch) -> None:
        self.app, self.wire, self.read_names = app, Wire(), list[str]()
        read = store.read

        async def counted(op):
            self.read_names.append(op.steps.__name__)
            return await read(op)

        patch.setattr(store, "read", counted)
        # the reads of the feed and its reader
        patch.setattr(store.payments, "_read", counted)
        remembered = CacheRefresher(app)
        hearing = BusListener(app, self.wire, remembered)
        self.tasks = [
            asyncio.create_task(item())
            for item in (*remembered.get_jobs().values(), *hearing.get_jobs().values())
        ]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def process(store, tmp_path, monkeypatch):
    core = build_core(Settings(home=tmp_path), store, TestClock(NOW_US), [])
    core.notifier.bus = ProcessBus("0123456789abcdef")
    created_process = Process(build_app(core), store, monkeypatch)
    # the last of the reads at the start
    await wait_until(lambda: "list_pauses" in created_process.read_names)
    yield created_process
    await created_process.end()


async def test_unwatched_change_causes_no_reads(process, store):
    of = await create_payment(store)
    ended = asyncio.create_task(
        anext(aiter(process.app.notifier.payments.watch(of.id, of.version)))
    )
    await wait_until(lambda: process.app.notifier.payments.watcher_count, 1)
    changed = await store.write(payments.cancel(of.id, CancellationReason.BY_MERCHANT, LATER_US))
    await wait_until(lambda: READS & {*process.read_names})
    process.read_names.clear()
    for start in range(0, 20_000, 200):
        remaining = (f"p:9:pay_{n:027}" for n in range(start, start + 200))
        process.wire.heard(FOREIGN + " ".join(remaining))
        process.wire.heard(f"{FOREIGN}o:pout_{start} s:eip155:{start} r:eip155:{start}")
    process.wire.heard(f"{FOREIGN}p:{changed.version}:{of.id}")
    assert await asyncio.wait_for(ended, PATIENCE_S) == changed
    assert len(process.read_names) == 1
    assert {*process.read_names} <= READS


async def test_only_caches_with_a_new_version_are_refreshed(store, tmp_path):
    app = build_app(build_core(Settings(home=tmp_path), store, TestClock(NOW_US), []))
    remembered, invalidations = CacheRefresher(app), list[Topic]()
    app.notifier.subscribe(Topic.ACCOUNTS, lambda: invalidations.append(Topic.ACCOUNTS))
    # earlier reads may have changed since
    await remembered.refresh()
    assert len(invalidations) == 1
    await remembered.refresh()
    for kind, generation in (
        (CacheKind.SCREENING, 1),
        (CacheKind.ACCOUNTS, 2),
        (CacheKind.EXECUTORS, 2),
    ):
        await store.write(generations.bump(kind))
        await remembered.refresh()
        assert len(invalidations) == generation
    await remembered.refresh()
    assert len(invalidations) == 2
    # a listener was disconnected
    remembered.invalidate()
    await remembered.refresh()
    assert len(invalidations) == 3


async def test_failed_cache_refresh_is_retried_next_time(store, tmp_path, monkeypatch):
    app = build_app(build_core(Settings(home=tmp_path), store, TestClock(NOW_US), []))
    remembered, survey = CacheRefresher(app), store.scan
    await remembered.refresh()

    async def away(_op):
        raise StoreUnavailable("away")

    await store.write(blocklists.replace(ScreeningList("ofac", "00", None, 0, 1), [BAD]))
    monkeypatch.setattr(store, "scan", away)
    with pytest.raises(StoreUnavailable):
        await remembered.refresh()
    monkeypatch.setattr(store, "scan", survey)
    await remembered.refresh()
    assert await app.screening.is_listed(f"{BAD[0]}:1:{BAD[1]}")


async def test_a_flood_has_the_counters_read_now_and_then(process):
    process.read_names.clear()
    for _ in range(5000):
        process.wire.heard(f"{FOREIGN}g w")
    await wait_until(lambda: "get_versions" in process.read_names)
    # one look, and one more for notifications during its pause
    assert process.read_names.count("get_versions") <= 2


async def test_payout_follower_is_notified_of_a_change(process):
    states = iter(["waiting", "done"])

    async def read() -> str:
        return next(states)

    following = process.app.notifier.payouts.follow("pout_1", read, lambda item: item == "done")
    assert await anext(following) == "waiting"
    ended = asyncio.create_task(anext(following))
    await wait_until(lambda: process.app.notifier.payouts.follower_count, 1)
    process.wire.heard(f"{FOREIGN}o:pout_1 o:pout_2")
    assert await asyncio.wait_for(ended, PATIENCE_S) == "done"


@pytest.mark.parametrize(
    ("token", "topic", "key"),
    [
        ("s:eip155:1", Topic.SETTLEMENT, "eip155:1"),
        ("r:eip155:1", Topic.RECEIVERS, "eip155:1"),
        ("w", Topic.PAYOUTS_DUE, ""),
        ("p:1:pay_1", Topic.PAYMENT, ""),
        ("o:pout_1", Topic.PAYOUT, ""),
        ("o:pout_1", Topic.PAYOUT, "pout_1"),
    ],
)
async def test_subscriber_is_notified_of_a_change_in_another_process(process, token, topic, key):
    changed, unrelated = asyncio.Event(), asyncio.Event()
    process.app.notifier.subscribe(topic, changed, key)
    process.app.notifier.subscribe(topic, unrelated, "another")
    process.wire.heard(FOREIGN + token)
    await asyncio.wait_for(changed.wait(), PATIENCE_S)
    assert not unrelated.is_set()


async def test_new_connection_notifies_every_subscriber_of_work(process):
    events = {
        topic: asyncio.Event() for topic in (Topic.SETTLEMENT, Topic.PAYOUTS_DUE, Topic.PAYOUT)
    }
    for (topic, event), key in zip(events.items(), ("eip155:1", "", "pout_1"), strict=True):
        process.app.notifier.subscribe(topic, event, key)
    process.wire.started()
    for event in events.values():
        await asyncio.wait_for(event.wait(), PATIENCE_S)


async def test_process_with_an_exclusive_store_publishes_nothing(tmp_path, store):
    app = build_app(build_core(Settings(home=tmp_path), store, TestClock(NOW_US), []))
    assert app.notifier.bus.is_enabled is (store.notification_channel is not None)
    jobs = get_jobs(app)
    assert bool(jobs) is not store.is_exclusive
