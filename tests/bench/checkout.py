"""Measure the payment page: pages shown by one process, and pages held open beside them.

Pages are compared with an empty route of the same process, by its processor time. Each open page
has a stream of states. Then every payment is canceled, and the figure is the time from the
merchant's request until the last page has its event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import uvloop

from tests.bench import http1, load
from tests.bench.florin import Florin
from tests.bench.http1 import HttpConnection
from tests.bench.load import Address, RestJob
from tests.bench.report import Figure, median_of
from tests.bench.setup import new_payments
from tests.bench.size import sized
from tests.bench.watchers import settled_kib

ROUNDS, SECONDS, PAYMENTS = sized((3, 2.0, 50), (1, 0.1, 2))
OPEN, CONNECTIONS = sized((2000, 8), (10, 2))


@dataclass(frozen=True, slots=True)
class Hold:
    """Pages to open on a server whose memory is measured, and the request that ends each."""

    pid: int
    http: Address
    cancels: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Held:
    """KiB per open page, and milliseconds until each received its end."""

    kib: float
    heard_ms: tuple[float, ...]


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    return [*_pages(florin, pool), *_open(florin, pool)]


def _pages(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    request = tuple(
        http1.request("GET", f"/{payment}", {"Accept-Language": "de"})
        for payment in new_payments(florin, pool, PAYMENTS)
    )
    shown = RestJob(florin.http, request, seconds=SECONDS, expect=b"pay_")
    empty = replace(shown, requests=(http1.request("GET", "/healthz", {}),), expect=b"ok")
    # the first page of each payment draws its QR code
    load.run(pool, replace(shown, seconds=0.0))
    rates: list[float] = []
    costs: list[float] = []
    ratios: list[float] = []
    for _ in range(ROUNDS):
        before = florin.cpu_s()
        pages = load.run(pool, shown)
        page_us = florin.used_s(before) / pages.answered * 1e6
        before = florin.cpu_s()
        nothing = load.run(pool, empty)
        empty_us = florin.used_s(before) / nothing.answered * 1e6
        rates.append(pages.rate)
        costs.append(page_us)
        ratios.append(page_us / empty_us)
    note = f"{PAYMENTS} payments in turn, in German; their codes are drawn before"
    cpu_us, peer = median(costs), "empty route"
    return [
        median_of("checkout_pages_per_s", rates, "/s", note, at_least=1000, cpu_us=cpu_us),
        median_of(
            "checkout_vs_empty",
            ratios,
            "×",
            f"{note}; by the server's CPU",
            cpu_us=cpu_us,
            peer=peer,
        ),
    ]


def _open(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    cancels = {
        payment: http1.request("POST", f"/v1/payments/{payment}/cancel", florin.merchant)
        for payment in new_payments(florin, pool, OPEN)
    }
    held = pool.submit(keep, Hold(florin.pid, florin.http, cancels)).result(2 * load.PATIENCE_S)
    note = f"{OPEN:,} pages, a payment and a connection each; all payments are called off"
    return [
        Figure("checkout_open_kib", held.kib, "KiB", note, at_most=64),
        Figure(
            "checkout_heard_ms",
            max(held.heard_ms),
            "ms",
            f"{note}: from the merchant's request until its page has heard, the slowest of all; "
            f"median {median(held.heard_ms):.1f} ms",
            at_most=1000,
        ),
    ]


def keep(hold: Hold) -> Held:
    """Open all pages, measure the server's memory, and end them."""
    return uvloop.run(_keep(hold))


async def _keep(hold: Hold) -> Held:
    async with asyncio.timeout(load.PATIENCE_S):
        idle = await settled_kib(hold.pid)
        pages = Pages(hold.http)
        for each_cancel in hold.cancels:
            await pages.open(each_cancel)
        await pages.wait_started(len(hold.cancels))
        kib = (await settled_kib(hold.pid) - idle) / len(hold.cancels)
        request = await _cancelled(hold)
        await pages.wait_ended(len(hold.cancels))
        received = tuple((pages.heard[cancel] - request[cancel]) * 1000 for cancel in hold.cancels)
    return Held(kib, received)


class Pages:
    """Open streams of states."""

    def __init__(self, http: Address) -> None:
        self._http = http
        self._started_count = 0
        self._changed = asyncio.Event()
        self.heard: dict[str, float] = {}

    async def open(self, payment: str) -> None:
        """Open the stream of a payment's page."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: _Stream(payment, self), *self._http)

    def record_state(self, payment: str, *, last: bool) -> None:
        """Record that a state arrived."""
        if last:
            self.heard[payment] = time.perf_counter()
        else:
            self._started_count += 1
        self._changed.set()

    async def wait_started(self, count: int) -> None:
        """Return when `count` streams have their first state."""
        await self._until(lambda: self._started_count >= count)

    async def wait_ended(self, count: int) -> None:
        """Return when `count` streams have their last state."""
        await self._until(lambda: len(self.heard) >= count)

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._changed.clear()
            await self._changed.wait()


class _Stream(asyncio.Protocol):
    def __init__(self, payment: str, pages: Pages) -> None:
        self._payment, self._pages = payment, pages

    def connection_made(self, transport: Any) -> None:
        transport.write(http1.request("GET", f"/{self._payment}/events", {}))

    def data_received(self, data: bytes) -> None:
        # a state arrives in one piece, on one line
        for line in data.split(b"\n"):
            if line.startswith(b"data:"):
                self._pages.record_state(self._payment, last=b'"isFinal":true' in line)


async def _cancelled(hold: Hold) -> dict[str, float]:
    """Cancel all payments, a few at a time; return the start time of each request."""
    left = list(hold.cancels)
    under_way: dict[HttpConnection, str] = {}
    request: dict[str, float] = {}
    answered: set[str] = set()
    done = asyncio.get_running_loop().create_future()

    def on_answer(connection: HttpConnection, status: bytes, body: bytes) -> None:
        if status != b"200":
            if not done.done() and under_way.get(connection) not in answered:
                done.set_exception(RuntimeError(f"not called off: {status!r} {body!r}"))
            return
        answered.add(under_way[connection])
        if left:
            ask(connection)
        elif len(answered) == len(hold.cancels) and not done.done():
            done.set_result(None)

    def ask(connection: HttpConnection) -> None:
        under_way[connection] = text = left.pop()
        request[text] = time.perf_counter()
        connection.ask(hold.cancels[text])

    loop = asyncio.get_running_loop()
    http_connections = [
        (await loop.create_connection(lambda: HttpConnection(on_answer), *hold.http))[1]
        for _ in range(min(CONNECTIONS, len(left)))
    ]
    for connection in http_connections:
        ask(connection)
    await done
    for connection in http_connections:
        connection.close()
    return request
