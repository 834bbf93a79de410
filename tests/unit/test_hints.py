"""Hints: what one process tells is what others hear, and nothing else is heard."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.domain.errors import Code, FlorinError
from florin_server.hints import Heard, Hints, read
from florin_server.meters import Meters
from florin_server.store.engine.notices import NOTICE_MAX
from florin_server.store.engine.query import StoreUnavailable
from florin_server.workers.hints import paced
from florin_server.workers.hints.paced import Paced
from florin_server.workers.hints.tell import back_off_s

OWN, OTHER = "0123456789abcdef", "fedcba9876543210"
CHAIN = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"


def counted(meters: Meters) -> dict[str, float]:
    told = meters.registry.get_sample_value
    return {
        one: told("florin_hints_total", {"hint": one}) for one in ("heard", "dropped", "ignored")
    }


async def texts(hints: Hints) -> list[tuple[str, int]]:
    """All that it has to tell."""
    found = []
    while hints._payments or hints._others:  # noqa: SLF001  (whoever takes waits for more)
        found.append(await hints.next())
    return found


async def test_what_is_told_is_heard():
    hints, there = Hints(OWN), Hints(OTHER)
    hints.payment("pay_1", 3)
    hints.payment("pay_2", 1)
    hints.payouts("pout_1", "rfnd_1")
    hints.settle(CHAIN)
    hints.receivers("eip155:1")
    hints.pay_out()
    hints.remembered()
    ((text, count),) = await texts(hints)
    heard = there.hear(text)
    assert heard == Heard(
        {"pay_1": 3, "pay_2": 1}, {"pout_1", "rfnd_1"}, {CHAIN}, {"eip155:1"}, True, True
    )
    assert count == len(heard) == 8


async def test_the_same_is_told_once_and_at_its_newest():
    hints = Hints(OWN)
    for version in (1, 3, 2):
        hints.payment("pay_1", version)
        hints.pay_out()
    ((text, count),) = await texts(hints)
    assert count == 2
    assert read(text)[1].payments == {"pay_1": 3}


async def test_one_who_waits_is_told_what_comes():
    hints = Hints(OWN)
    waits = asyncio.create_task(hints.next())
    await asyncio.sleep(0)
    assert not waits.done()
    hints.settle(CHAIN)
    assert await waits == (f"1 {OWN} s:{CHAIN}", 1)


async def test_texts_are_short_and_nothing_is_left_out():
    hints, named = Hints(OWN), {f"pay_{n:027}": n for n in range(1000)}
    for payment_id, version in named.items():
        hints.payment(payment_id, version)
    hints.pay_out()
    found = await texts(hints)
    assert all(len(text.encode()) < NOTICE_MAX for text, _ in found)
    assert 4 < len(found) < 10
    heard = [read(text)[1] for text, _ in found]
    assert {k: v for one in heard for k, v in one.payments.items()} == named
    # whoever works is told before those who watch
    assert [one.pay_out for one in heard] == [True, *[False] * (len(found) - 1)]


async def test_what_waits_is_bounded():
    meters = Meters()
    hints = Hints(OWN, meters)
    for number in range(12_000):
        hints.payment(f"pay_{number}", 1)
    hints.payouts("pout_1")
    # what waits already may still become newer
    hints.payment("pay_1", 2)
    assert counted(meters)["dropped"] == 2001
    assert sum([count for _, count in await texts(hints)]) == 10_000


async def test_without_an_origin_nothing_is_kept():
    hints = Hints()
    hints.payment("pay_1", 1)
    hints.remembered()
    assert not hints.on
    assert await texts(hints) == []


def test_nobody_acts_on_what_it_told_itself():
    meters = Meters()
    assert Hints(OWN, meters).hear(f"1 {OWN} w") is None
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
def test_what_is_no_hint_is_counted_and_does_nothing(text):
    meters = Meters()
    assert Hints(OWN, meters).hear(text) is None
    assert counted(meters) == {"heard": 0, "dropped": 0, "ignored": 1}


class Work:
    """Counts what is done; raises what is put in."""

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


async def test_work_that_is_asked_for_all_the_time_is_done_now_and_then(monkeypatch):
    pauses: list[float] = []
    over = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await over.wait()

    work = Work()
    looks = Paced(work, 0.05)
    monkeypatch.setattr(paced.asyncio, "sleep", pause)
    running = asyncio.create_task(looks.run())
    looks.ask()
    await work.again()
    for _ in range(1000):
        looks.ask()
    assert (work.done, pauses) == (1, [0.05])
    over.set()
    await work.again()
    assert work.done == 2
    running.cancel()


@pytest.mark.parametrize(
    "fault", [StoreUnavailable("away"), FlorinError(Code.INTERNAL_ERROR, unavailable=True)]
)
async def test_work_goes_on_after_an_outage(fault):
    work = Work()
    work.faults.append(fault)
    looks = Paced(work, 0)
    running = asyncio.create_task(looks.run())
    for _ in range(2):
        looks.ask()
        await work.again()
    assert not running.done()
    running.cancel()


def test_attempts_come_less_and_less_often():
    waits = [back_off_s(failures) for failures in (0, 1, 2, 5, 6, 10**6)]
    assert waits == [0.1, 0.2, 0.4, 3.2, 5.0, 5.0]
