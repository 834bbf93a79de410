"""Measure the cost of waiting: memory of open watch streams and of long polls."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import uvloop

from tests.bench import http1, load
from tests.bench.florin import Florin, cpu_s, rss_kib
from tests.bench.http1 import HttpConnection
from tests.bench.http2 import Metadata
from tests.bench.load import Address
from tests.bench.report import Figure
from tests.bench.setup import new_payments
from tests.bench.size import sized
from tests.bench.streams import Streams
from tests.support.api import grpc_metadata

STREAMS, CONNECTIONS, POLLS = sized((5000, 50, 2000), (20, 2, 5))
_LOOK_S, _QUIET = 0.25, 0.3


@dataclass(frozen=True, slots=True)
class Hold:
    """Streams and polls to open on a server whose memory is measured."""

    pid: int
    grpc: Address
    http: Address
    metadata: Metadata
    payments: tuple[str, ...]
    polls: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """KiB per open stream and per long poll, and how fast streams opened."""

    stream_kib: float
    poll_kib: float
    opened_per_s: float


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    payments = new_payments(florin, pool, STREAMS)
    polls = tuple(
        http1.request("GET", f"/v1/gateway/payment/{text}/status?maxPollMs=25000", florin.wallet)
        for text in payments[:POLLS]
    )
    hold = Hold(
        florin.pid, florin.grpc, florin.http, grpc_metadata(florin.wallet), tuple(payments), polls
    )
    held = pool.submit(keep, hold).result(2 * load.PATIENCE_S)
    note = (
        f"{STREAMS:,} idle gRPC streams over {CONNECTIONS} connections, a payment each, opened at "
        f"{held.opened_per_s:,.0f}/s; a held REST long poll: {held.poll_kib:.1f} KiB ({POLLS:,})"
    )
    return [Figure("watcher_kib", held.stream_kib, "KiB", note, at_most=32)]


def keep(hold: Hold) -> Held:
    """Open everything, and measure the server's memory in between."""
    return uvloop.run(_keep(hold))


async def _keep(hold: Hold) -> Held:
    async with asyncio.timeout(load.PATIENCE_S):
        idle = await settled_kib(hold.pid)
        streams = Streams(hold.metadata, lambda _payment: None)
        started = time.perf_counter()
        await streams.open(hold.grpc, hold.payments, CONNECTIONS)
        seconds = time.perf_counter() - started
        with_streams = await settled_kib(hold.pid)
        polls = await _hold_polls(hold)
        with_polls = await settled_kib(hold.pid)
        for poll in polls:
            poll.close()
        streams.close()
    count = len(hold.payments)
    return Held(
        stream_kib=(with_streams - idle) / count,
        poll_kib=(with_polls - with_streams) / len(polls),
        opened_per_s=count / seconds,
    )


async def _hold_polls(hold: Hold) -> list[HttpConnection]:
    loop = asyncio.get_running_loop()
    early: list[bytes] = []
    connections: list[HttpConnection] = []

    def answered(_connection: HttpConnection, status: bytes, body: bytes) -> None:
        early.append(status + body)

    for poll in hold.polls:
        connection = await loop.create_connection(lambda: HttpConnection(answered), *hold.http)
        connection[1].ask(poll)
        connections.append(connection[1])
    await settled_kib(hold.pid)
    if early:
        raise RuntimeError(f"{len(early)} polls were not held: {early[0]!r}")
    return connections


async def settled_kib(pid: int) -> int:
    """Return the server's memory once it is nearly idle."""
    used = cpu_s(pid)
    while True:
        await asyncio.sleep(_LOOK_S)
        before, used = used, cpu_s(pid)
        if used - before < _QUIET * _LOOK_S:
            return rss_kib(pid)
