"""What one process does with what it hears: it looks at what it watches, and at nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from florin_server.boot.app import app_of, core_of
from florin_server.clock import TestClock
from florin_server.config import Settings
from florin_server.domain.payments.payment import CancelledReason
from florin_server.domain.screening.blocklist import ScreeningList
from florin_server.flows.app import App
from florin_server.hints import Hints
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.hints import generations
from florin_server.store.hints.generations import Kind
from florin_server.store.payments import payments
from florin_server.store.screening import blocklists
from florin_server.workers.hints.hear import Hearing
from florin_server.workers.hints.jobs import jobs
from florin_server.workers.hints.remembered import Remembered

from tests.support.store_kit import LATER_US, NOW_US, created
from tests.support.until import PATIENCE_S, until

BAD = ("eip155", "0x" + "66" * 20)
# how a payment is read, alone or with others
READS = {"one", "get"}
FOREIGN = "1 fedcba9876543210 "


class Wire:
    """Notices that a test makes up."""

    def __init__(self) -> None:
        self.heard: Callable[[str], None] = lambda _text: None
        self.told: list[str] = []

    async def tell(self, text: str) -> None:
        self.told.append(text)

    async def listen(self, clock, began, heard) -> None:
        self.heard = heard
        began()
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


class Process:
    """A process that hears what a test tells it; `asked` are the names of what it reads."""

    def __init__(self, app: App, store, patch: pytest.MonkeyPatch) -> None:
        self.app, self.wire, self.asked = app, Wire(), list[str]()
        read = store.read

        async def counted(op):
            self.asked.append(op.steps.__name__)
            return await read(op)

        patch.setattr(store, "read", counted)
        # as the hub and its reader ask
        patch.setattr(store.reader, "_read", counted)
        remembered = Remembered(app)
        hearing = Hearing(app, self.wire, remembered)
        self.tasks = [
            asyncio.create_task(one())
            for one in (*remembered.jobs().values(), *hearing.jobs().values())
        ]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def process(store, tmp_path, monkeypatch):
    core = core_of(Settings(home=tmp_path), store, TestClock(NOW_US), [])
    app = replace(app_of(core), hints=Hints("0123456789abcdef"))
    made = Process(app, store, monkeypatch)
    # the last of what it reads once, when it begins
    await until(lambda: "pauses" in made.asked)
    yield made
    await made.end()


async def test_what_nobody_watches_costs_nothing(process, store):
    of = await created(store)
    ended = asyncio.create_task(anext(aiter(process.app.hub.watch(of.id, of.version))))
    await until(lambda: process.app.hub.watchers, 1)
    changed = await store.write(payments.cancel(of.id, CancelledReason.BY_MERCHANT, LATER_US))
    await until(lambda: READS & {*process.asked})
    process.asked.clear()
    for start in range(0, 20_000, 200):
        others = (f"p:9:pay_{n:027}" for n in range(start, start + 200))
        process.wire.heard(FOREIGN + " ".join(others))
        process.wire.heard(f"{FOREIGN}o:pout_{start} s:eip155:{start} r:eip155:{start}")
    process.wire.heard(f"{FOREIGN}p:{changed.version}:{of.id}")
    assert await asyncio.wait_for(ended, PATIENCE_S) == changed
    assert len(process.asked) == 1
    assert {*process.asked} <= READS


async def test_only_what_was_counted_is_read_again(store, tmp_path):
    app = app_of(core_of(Settings(home=tmp_path), store, TestClock(NOW_US), []))
    remembered, accounts = Remembered(app), app.accounts
    # what was read before may have changed since
    await remembered.look()
    assert accounts.generation == 1
    await remembered.look()
    for kind, generation in ((Kind.SCREENING, 1), (Kind.ACCOUNTS, 2), (Kind.EXECUTORS, 2)):
        await store.write(generations.bump(kind))
        await remembered.look()
        assert accounts.generation == generation
    await remembered.look()
    assert accounts.generation == 2
    # a listener was cut off
    remembered.forget()
    await remembered.look()
    assert accounts.generation == 3


async def test_what_could_not_be_read_again_is_tried_the_next_time(store, tmp_path, monkeypatch):
    app = app_of(core_of(Settings(home=tmp_path), store, TestClock(NOW_US), []))
    remembered, survey = Remembered(app), store.survey
    await remembered.look()

    async def away(_op):
        raise StoreUnavailable("away")

    await store.write(blocklists.replace(ScreeningList("ofac", "00", None, 0, 1), [BAD]))
    monkeypatch.setattr(store, "survey", away)
    with pytest.raises(StoreUnavailable):
        await remembered.look()
    monkeypatch.setattr(store, "survey", survey)
    await remembered.look()
    assert await app.screening.lists_account(f"{BAD[0]}:1:{BAD[1]}")


async def test_a_flood_has_the_counters_read_now_and_then(process):
    process.asked.clear()
    for _ in range(5000):
        process.wire.heard(f"{FOREIGN}g w")
    await until(lambda: "current" in process.asked)
    # one look, and one more for what came during its pause
    assert process.asked.count("current") <= 2


async def test_whoever_follows_a_payout_is_told_that_it_may_have_changed(process):
    states = iter(["waiting", "done"])

    async def read() -> str:
        return next(states)

    following = process.app.payouts.follow("pout_1", read, lambda one: one == "done")
    assert await anext(following) == "waiting"
    ended = asyncio.create_task(anext(following))
    await until(lambda: process.app.payouts.followers, 1)
    process.wire.heard(f"{FOREIGN}o:pout_1 o:pout_2")
    assert await asyncio.wait_for(ended, PATIENCE_S) == "done"


async def test_a_process_that_has_its_store_alone_tells_nobody(tmp_path, store):
    app = app_of(core_of(Settings(home=tmp_path), store, TestClock(NOW_US), []))
    assert app.hints.on is not store.exclusive
    found = jobs(app)
    assert bool(found) is not store.exclusive
