"""Test the leases of processes that are dead, and of a process that ends."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.money.settlement.worker.senders import release_dead_leases
from florin_server.operations.store import leases

from tests.support.settlement_harness import open_settlement_harness


async def test_leases_of_a_dead_process_are_released_at_once(store):
    for name in ("dead", "alive"):
        await store.write(leases.acquire(f"lease of {name}", name, 0, 100, steal=False))
    both = ["lease of dead", "lease of alive"]
    await release_dead_leases(store, [])
    assert await store.read(leases.filter_held(both, 50)) == set(both)
    await release_dead_leases(store, ["dead"])
    assert await store.read(leases.filter_held(both, 50)) == {"lease of alive"}


async def test_lease_whose_acquisition_is_canceled_is_released(tmp_path, monkeypatch):
    async with open_settlement_harness(tmp_path) as shop:
        (queue,) = shop.settler.context.senders.queues
        await queue.key.release_lease()
        store, now_us = shop.app.store, shop.app.clock.now_us
        write, stored, answered = store.write, asyncio.Event(), asyncio.Event()

        async def answer_late(op):
            result = await write(op)
            stored.set()
            await answered.wait()
            return result

        with monkeypatch.context() as late:
            late.setattr(store, "write", answer_late)
            shop.lab.clock.advance(9)
            acquiring = asyncio.create_task(queue.key.acquire_lease())
            await stored.wait()
            acquiring.cancel()
            answered.set()
            with pytest.raises(asyncio.CancelledError):
                await acquiring
        held = leases.filter_held([queue.key.lease_name], now_us())
        assert await store.read(held) == {queue.key.lease_name}
        await queue.key.release_lease()
        assert await store.read(held) == frozenset()
