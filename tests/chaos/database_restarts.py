"""Restart a database, and end its connections, while payments are made.

Nothing acknowledged is lost, and nothing is done twice. The only error that callers see is that the
store is currently unavailable. `python -m tests.chaos.database_restarts 100 500`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time

from florin_server.db.engine.query import StoreUnavailable
from florin_server.db.engine.store import Store
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import history, payments

from tests.support import postgres, store_factories

CLIENTS = 8
READY_S = 5.0
_ENDED = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'florin-%'"
)


class Load:
    """Clients that make payments, each repeated under its key until it is answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers = itertools.count()
        self.acknowledged: dict[str, str] = {}
        self.refused = 0
        self.ready = asyncio.Event()

    async def run_client(self) -> None:
        while True:
            key = f"key-{next(self._numbers)}"
            while key not in self.acknowledged:
                await self._try(key)
            self.ready.set()

    async def _try(self, key: str) -> None:
        payment = store_factories.make_payment()
        op = store_factories.create_once(
            payment, store_factories.make_claim(key), payment.id.encode()
        )
        try:
            result = await self._store.write(op)
            await self._store.payments.find(payment.id)
        except StoreUnavailable:
            self.refused += 1
            # others get their turn
            await asyncio.sleep(0.01)
        else:
            body = getattr(result, "body", None)
            self.acknowledged[key] = body.decode() if body is not None else payment.id


async def campaign(server: postgres.OwnServer, restarts: int, ends: int) -> tuple[Load, float]:
    """Return the load, and the longest time from an outage to the next payment."""
    store = await open_store(server.database)
    load, longest = Load(store), 0.0
    clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
    outages = [False] * ends + [True] * restarts
    try:
        for number, outage in enumerate(outages):
            # at different moments
            await asyncio.sleep(0.003 * (number % 17))
            if outage:
                await asyncio.to_thread(server.restart)
            else:
                await postgres.list_rows(server.database.dsn, _ENDED)
            began = time.monotonic()
            load.ready.clear()
            ready = asyncio.create_task(load.ready.wait())
            await asyncio.wait([ready, *clients], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            for client in clients:
                if client.done():
                    client.result()
            assert ready.done(), "no payment could be made for a minute"
            longest = max(longest, time.monotonic() - began)
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    problems = await store.scan(history.check())
    ids = list(load.acknowledged.values())
    stored_payments = await store.scan(payments.find_many(ids))
    stored = await postgres.list_rows(server.database.dsn, "SELECT count(*) FROM payment")
    await store.close()
    assert problems == []
    assert set(stored_payments) == set(ids)
    assert len(set(ids)) == len(ids)
    # the calls pending at the end can be stored too
    assert len(ids) <= stored[0][0] <= len(ids) + CLIENTS
    for client in clients:
        assert client.cancelled()
    return load, longest


def main() -> None:
    restarts, ends = map(int, sys.argv[1:] or ("100", "500"))
    server = postgres.OwnServer()
    try:
        load, longest = asyncio.run(campaign(server, restarts, ends))
    finally:
        server.end()
    print(f"{len(load.acknowledged)} payments, {load.refused} refusals, ready in {longest:.1f} s")
    sys.exit(longest > READY_S)


if __name__ == "__main__":
    main()
