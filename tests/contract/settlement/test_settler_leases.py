"""What a process does with the leases of others that are known to be dead."""

from __future__ import annotations

from florin_server.store.settlement import leases
from florin_server.workers.settlement.senders import free_of_dead


async def test_what_the_dead_had_others_may_have_at_once(store):
    for name in ("dead", "alive"):
        await store.write(leases.acquire(f"lease of {name}", name, 0, 100, steal=False))
    both = ["lease of dead", "lease of alive"]
    await free_of_dead(store, [])
    assert await store.read(leases.leased(both, 50)) == set(both)
    await free_of_dead(store, ["dead"])
    assert await store.read(leases.leased(both, 50)) == {"lease of alive"}
