"""Measure how soon watchers receive a change: over REST, over gRPC, and in the feed alone."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import uvloop
from florin_server.base.clock import SystemClock
from florin_server.base.feed import FeedClosed, PaymentFeed
from florin_server.domain.payments.payment import Payment

from tests.bench import http1, load
from tests.bench.create import a_payment
from tests.bench.florin import Florin
from tests.bench.http1 import HttpConnection
from tests.bench.http2 import Metadata
from tests.bench.load import Address, percentile
from tests.bench.report import Figure
from tests.bench.setup import new_payments
from tests.bench.size import sized
from tests.bench.streams import Streams
from tests.support.api import grpc_metadata

STREAMS, CONNECTIONS, PER_S = sized((600, 8, 200), (10, 2, 200))
# the first changes reach a cold server
_WARM = sized(50, 2)
_HUB_WATCHERS, _HUB_PER_S, _HUB_CHANGES = sized((10_000, 1000, 2000), (20, 1000, 10))


@dataclass(frozen=True, slots=True)
class Changes:
    """Payments to watch, and the request that changes each."""

    grpc: Address
    http: Address
    metadata: Metadata
    cancels: dict[str, bytes]


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    payments = new_payments(florin, pool, STREAMS)
    cancels = {
        payment: http1.request("POST", f"/v1/payments/{payment}/cancel", florin.merchant)
        for payment in payments
    }
    changes = Changes(florin.grpc, florin.http, grpc_metadata(florin.wallet), cancels)
    seen = pool.submit(watch, changes).result(2 * load.PATIENCE_S)
    hub = pool.submit(watch_hub).result(2 * load.PATIENCE_S)
    note = (
        f"from before a REST cancel is sent to its gRPC message, {STREAMS} streams held, {PER_S} "
        f"changes/s; p99 {percentile(seen, 99):.1f} ms; in the hub, {_HUB_WATCHERS:,} watchers and "
        f"{_HUB_PER_S:,} changes/s: p50 {percentile(hub, 50):.2f} p99 {percentile(hub, 99):.2f} ms"
    )
    return [Figure("fanout_p50_ms", percentile(seen, 50), "ms", note, at_most=5)]


def watch(changes: Changes) -> list[float]:
    """Return milliseconds from each change's cause to its message."""
    return uvloop.run(_bounded(changes))


async def _bounded(changes: Changes) -> list[float]:
    async with asyncio.timeout(load.PATIENCE_S):
        return await _watch(changes)


async def _watch(changes: Changes) -> list[float]:
    loop, now = asyncio.get_running_loop(), time.perf_counter
    caused: dict[str, float] = {}
    seen_ms: list[float] = []
    done = loop.create_future()

    def changed(payment: str) -> None:
        seen_ms.append((now() - caused[payment]) * 1000)
        if len(seen_ms) == len(changes.cancels):
            done.set_result(None)

    def answered(connection: HttpConnection, status: bytes, body: bytes) -> None:
        if status[:1] == b"2":
            free.put_nowait(connection)
        elif not done.done():
            done.set_exception(RuntimeError(f"a cancel was refused: {status!r} {body!r}"))

    streams = Streams(changes.metadata, changed)
    await streams.open(changes.grpc, list(changes.cancels), CONNECTIONS)
    free: asyncio.Queue[HttpConnection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        created_connection = await loop.create_connection(
            lambda: HttpConnection(answered), *changes.http
        )
        free.put_nowait(created_connection[1])
    started = now()
    for number, (payment, cancel) in enumerate(changes.cancels.items()):
        await asyncio.sleep(started + number / PER_S - now())
        connection = await free.get()
        caused[payment] = now()
        connection.ask(cancel)
    await done
    streams.close()
    return seen_ms[_WARM:]


def watch_hub() -> list[float]:
    """Return milliseconds from publishing to the watcher's task, with only the feed loaded."""
    return uvloop.run(_watch_hub())


async def _watch_hub() -> list[float]:
    now = time.perf_counter
    first = {p.id: p for p in (a_payment() for _ in range(_HUB_WATCHERS))}
    published: dict[str, float] = {}
    seen_ms: list[float] = []

    async def read(payment_id: str) -> Payment:
        return first[payment_id]

    async def nothing(_seen: object) -> list[Payment]:
        return []

    hub = PaymentFeed(read, nothing, SystemClock())
    held = asyncio.Semaphore(0)

    async def watcher(payment_id: str) -> None:
        states = hub.watch(payment_id)
        await anext(states)
        held.release()
        with suppress(FeedClosed):
            async for _ in states:
                seen_ms.append((now() - published[payment_id]) * 1000)  # noqa: PERF401  (the time counts)

    tasks = [asyncio.create_task(watcher(payment_id)) for payment_id in first]
    for _ in first:
        await held.acquire()
    started = now()
    for number, payment in enumerate(list(first.values())[:_HUB_CHANGES]):
        await asyncio.sleep(max(0.0, started + number / _HUB_PER_S - now()))
        published[payment.id] = now()
        hub.publish(replace(payment, version=1))
    hub.close()
    await asyncio.gather(*tasks)
    return seen_ms
