"""Equal questions asked at the same time are one question."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.rails.connection.coalesce import Shared


class Asked:
    def __init__(self) -> None:
        self.times = 0
        self.ended = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        self.times += 1
        number = self.times
        try:
            await self.go.wait()
        finally:
            self.ended += 1
        if number == 13:
            raise ValueError("unlucky")
        return number


async def begun(count: int, shared: Shared[int], asked: Asked, key: object = "key"):
    tasks = [asyncio.create_task(shared(key, asked)) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_who_comes_while_it_is_asked_gets_the_same_answer():
    shared, asked = Shared[int](), Asked()
    tasks = await begun(3, shared, asked)
    others = await begun(1, shared, asked, "other")
    asked.go.set()
    assert await asyncio.gather(*tasks, *others) == [1, 1, 1, 2]
    assert await shared("key", asked) == 3


async def test_what_goes_wrong_reaches_everybody():
    shared, asked = Shared[int](), Asked()
    asked.times = 12
    tasks = await begun(2, shared, asked)
    asked.go.set()
    for task in tasks:
        with pytest.raises(ValueError, match="unlucky"):
            await task
    assert await shared("key", asked) == 14


async def test_who_gives_up_takes_nothing_from_the_others():
    shared, asked = Shared[int](), Asked()
    first, second = await begun(2, shared, asked)
    first.cancel()
    await asyncio.wait({first})
    asked.go.set()
    assert await second == 1


async def test_when_all_give_up_the_question_ends_and_the_next_is_asked_anew():
    shared, asked = Shared[int](), Asked()
    tasks = await begun(2, shared, asked)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    (late,) = await begun(1, shared, asked)
    assert (asked.times, asked.ended) == (2, 1)
    asked.go.set()
    assert await late == 2


async def test_what_was_asked_before_is_not_told_to_who_asks_after_a_change():
    shared, asked = Shared[int](), Asked()
    before = await begun(2, shared, asked)
    shared.forget()
    after = await begun(2, shared, asked)
    asked.go.set()
    assert await asyncio.gather(*before, *after) == [1, 1, 2, 2]
    assert await shared("key", asked) == 3
