"""Test that equal calls at the same time become one call."""

from __future__ import annotations

import asyncio
import gc

import pytest
from florin_server.rails.connection.coalesce import SharedRequests


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


async def start_calls(count: int, shared: SharedRequests[int], request: Asked, key: object = "key"):
    tasks = [asyncio.create_task(shared(key, request)) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_request_during_a_call_shares_its_result():
    shared, request = SharedRequests[int](), Asked()
    tasks = await start_calls(3, shared, request)
    remaining = await start_calls(1, shared, request, "other")
    request.go.set()
    assert await asyncio.gather(*tasks, *remaining) == [1, 1, 1, 2]
    assert await shared("key", request) == 3


async def test_failure_reaches_every_caller():
    shared, request = SharedRequests[int](), Asked()
    request.times = 12
    tasks = await start_calls(2, shared, request)
    request.go.set()
    for task in tasks:
        with pytest.raises(ValueError, match="unlucky"):
            await task
    assert await shared("key", request) == 14


async def test_canceled_caller_does_not_disturb_the_remaining_callers():
    shared, request = SharedRequests[int](), Asked()
    first, second = await start_calls(2, shared, request)
    first.cancel()
    await asyncio.wait({first})
    request.go.set()
    assert await second == 1


async def test_call_is_canceled_when_every_caller_cancels():
    shared, request = SharedRequests[int](), Asked()
    tasks = await start_calls(2, shared, request)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    (late,) = await start_calls(1, shared, request)
    assert (request.times, request.ended) == (2, 1)
    request.go.set()
    assert await late == 2


async def test_result_from_before_forget_is_not_shared_afterwards():
    shared, request = SharedRequests[int](), Asked()
    before = await start_calls(2, shared, request)
    shared.clear()
    after = await start_calls(2, shared, request)
    request.go.set()
    assert await asyncio.gather(*before, *after) == [1, 1, 2, 2]
    assert await shared("key", request) == 3


async def test_failure_that_no_caller_waits_for_is_not_logged():
    shared, problems = SharedRequests[int](), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    ended = asyncio.Event()

    async def fail_when_canceled() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
            raise ValueError("the node left a call unanswered")

    caller = asyncio.create_task(shared("key", fail_when_canceled))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    await ended.wait()
    await asyncio.sleep(0)
    del caller
    gc.collect()
    assert problems == []
