"""Test how a process handles the leases of processes that are known to be dead."""

from __future__ import annotations

from florin_server.money.settlement.worker.senders import release_dead_leases
from florin_server.operations.store import leases


async def test_leases_of_a_dead_process_are_released_at_once(store):
    for name in ("dead", "alive"):
        await store.write(leases.acquire(f"lease of {name}", name, 0, 100, steal=False))
    both = ["lease of dead", "lease of alive"]
    await release_dead_leases(store, [])
    assert await store.read(leases.filter_held(both, 50)) == set(both)
    await release_dead_leases(store, ["dead"])
    assert await store.read(leases.filter_held(both, 50)) == {"lease of alive"}
