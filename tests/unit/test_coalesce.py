"""Questions that arrive together are asked together."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.rails.connection.coalesce import Coalescer


class Asked:
    """Doubles numbers and remembers how it was asked."""

    def __init__(self, fault=None):
        self.batches = []
        self.fault = fault

    async def __call__(self, questions):
        self.batches.append(list(questions))
        if self.fault:
            raise self.fault
        return [2 * one for one in questions]


async def test_questions_of_one_moment_share_a_batch():
    asked = Asked()
    ask = Coalescer(asked, limit=50)
    assert await asyncio.gather(*(ask(n) for n in range(20))) == [2 * n for n in range(20)]
    assert asked.batches == [list(range(20))]


async def test_a_full_batch_does_not_wait():
    asked = Asked()
    ask = Coalescer(asked, window_s=3600, limit=10)
    await asyncio.gather(*(ask(n) for n in range(30)))
    assert [len(batch) for batch in asked.batches] == [10, 10, 10]


async def test_a_fault_reaches_everyone_in_the_batch():
    ask = Coalescer(Asked(fault=OSError("gone")), limit=3)
    answers = await asyncio.gather(*(ask(n) for n in range(3)), return_exceptions=True)
    assert [str(one) for one in answers] == ["gone"] * 3


async def test_who_gave_up_is_not_asked_for():
    asked = Asked()
    ask = Coalescer(asked, window_s=3600, limit=3)
    gone = asyncio.ensure_future(ask(1))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await asyncio.gather(ask(2), ask(3)) == [4, 6]
    assert asked.batches == [[2, 3]]


async def test_closing_asks_what_is_left():
    asked = Asked()
    ask = Coalescer(asked, window_s=3600)
    waiting = asyncio.ensure_future(ask(4))
    await asyncio.sleep(0)
    await ask.close()
    assert await waiting == 8
