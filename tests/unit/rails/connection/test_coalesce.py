"""Test that calls which arrive together become one batch."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.rails.connection.coalesce import RequestCoalescer


class Asked:
    """A batch function that doubles numbers and records its calls."""

    def __init__(self, fault=None):
        self.batches = []
        self.fault = fault

    async def __call__(self, questions):
        self.batches.append(list(questions))
        if self.fault:
            raise self.fault
        return [2 * question for question in questions]


async def test_concurrent_requests_share_a_batch():
    request = Asked()
    ask = RequestCoalescer(request, limit=50)
    assert await asyncio.gather(*(ask(n) for n in range(20))) == [2 * n for n in range(20)]
    assert request.batches == [list(range(20))]


async def test_a_full_batch_does_not_wait():
    request = Asked()
    ask = RequestCoalescer(request, window_s=3600, limit=10)
    await asyncio.gather(*(ask(n) for n in range(30)))
    assert [len(batch) for batch in request.batches] == [10, 10, 10]


async def test_a_fault_reaches_everyone_in_the_batch():
    ask = RequestCoalescer(Asked(fault=OSError("gone")), limit=3)
    answers = await asyncio.gather(*(ask(n) for n in range(3)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["gone"] * 3


async def test_canceled_request_is_not_sent():
    request = Asked()
    ask = RequestCoalescer(request, window_s=3600, limit=3)
    gone = asyncio.ensure_future(ask(1))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await asyncio.gather(ask(2), ask(3)) == [4, 6]
    assert request.batches == [[2, 3]]


async def test_close_sends_pending_requests():
    request = Asked()
    ask = RequestCoalescer(request, window_s=3600)
    waiting = asyncio.ensure_future(ask(4))
    await asyncio.sleep(0)
    await ask.close()
    assert await waiting == 8
