"""Run closed loops of REST and gRPC calls, in a separate process and with a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from multiprocessing import get_context
from statistics import quantiles
from typing import Any

import uvloop
from florin_server.app.files import raise_file_limit

from tests.bench.http1 import HttpConnection
from tests.bench.http2 import GrpcConnection, Metadata, message
from tests.bench.size import sized

Address = tuple[str, int]

# a run that has not ended by then has failed
PATIENCE_S = 60


@contextmanager
def child() -> Iterator[ProcessPoolExecutor]:
    """Start a fresh process that runs functions, with room for thousands of connections.

    In a short run it is a fork, which need not import anything again.
    """
    fresh = get_context(sized("spawn", "fork"))
    with ProcessPoolExecutor(max_workers=1, mp_context=fresh, initializer=raise_file_limit) as pool:
        pool.submit(time.time).result(PATIENCE_S)
        yield pool


@dataclass(frozen=True, slots=True)
class RestJob:
    """Requests over as many connections: each once, or in turn for `seconds`.

    Every answer must have a 2xx status and contain `expect`; `keep` collects the bodies in the
    order of their arrival.
    """

    address: Address
    requests: tuple[bytes, ...]
    connections: int = 64
    seconds: float = 0
    expect: bytes = b""
    keep: bool = False

    def run(self) -> Result:
        return timed(_Rest(self).run())


@dataclass(frozen=True, slots=True)
class GrpcJob:
    """One request, repeated for `seconds` over connections with `streams` calls at once."""

    address: Address
    path: str
    metadata: Metadata
    request: bytes
    seconds: float
    connections: int = 8
    streams: int = 8

    def run(self) -> Result:
        return timed(_Grpc(self).run())


@dataclass(slots=True)
class Result:
    """The result of a job. `cpu_s` is the client's own."""

    answered: int = 0
    failed: int = 0
    seconds: float = 0
    cpu_s: float = 0
    latencies_s: list[float] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    fault: bytes = b""

    @property
    def rate(self) -> float:
        return self.answered / self.seconds

    def quantile_ms(self, percent: int) -> float:
        return percentile(self.latencies_s, percent) * 1000


def percentile(values: list[float], percent: int) -> float:
    """Return a whole percentile of at least two values."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def run(pool: ProcessPoolExecutor, job: RestJob | GrpcJob) -> Result:
    """Run a job in the other process; a refused call fails the benchmark, a slow call does not."""
    result = pool.submit(job.run).result(2 * PATIENCE_S)
    if result.failed:
        raise RuntimeError(f"{result.failed} calls failed, the first one with {result.fault!r}")
    return result


def timed(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a client's work to its end."""
    cpu_s = time.process_time()
    result = uvloop.run(_bounded(work))
    result.cpu_s = time.process_time() - cpu_s
    return result


async def _bounded(work: Coroutine[Any, Any, Result]) -> Result:
    async with asyncio.timeout(PATIENCE_S):
        return await work


class _Rest:
    def __init__(self, job: RestJob) -> None:
        self._job = job
        self._result = Result()
        self._sent_at: dict[HttpConnection, float] = {}
        repeated = chain.from_iterable(repeat(job.requests)) if job.seconds else job.requests
        self._requests = iter(repeated)
        self._until = float("inf")

    async def run(self) -> Result:
        job, loop = self._job, asyncio.get_running_loop()
        self._done = loop.create_future()
        connections = []
        for _ in range(job.connections if job.seconds else min(job.connections, len(job.requests))):
            created_connection = await loop.create_connection(
                lambda: HttpConnection(self._answered), *job.address
            )
            connections.append(created_connection[1])
        started = time.perf_counter()
        if job.seconds:
            self._until = started + job.seconds
        for connection in connections:
            self._ask(connection)
        await self._done
        self._result.seconds = time.perf_counter() - started
        for connection in connections:
            connection.close()
        return self._result

    def _ask(self, connection: HttpConnection) -> None:
        now = time.perf_counter()
        content = next(self._requests, None) if now < self._until else None
        if content is not None:
            self._sent_at[connection] = now
            connection.ask(content)
        elif not self._sent_at and not self._done.done():
            self._done.set_result(None)

    def _answered(self, connection: HttpConnection, status: bytes, body: bytes) -> None:
        result, request = self._result, self._sent_at.pop(connection, None)
        if request is None:
            return
        if status[:1] == b"2" and self._job.expect in body:
            result.answered += 1
            result.latencies_s.append(time.perf_counter() - request)
            if self._job.keep:
                result.bodies.append(body)
        else:
            result.failed += 1
            result.fault = result.fault or status + b" " + body
            self._requests, self._until = iter(()), 0
        self._ask(connection)


class _Grpc:
    def __init__(self, job: GrpcJob) -> None:
        self._job = job
        self._framed = message(job.request)
        self._result = Result()
        self._open = 0

    async def run(self) -> Result:
        loop, job = asyncio.get_running_loop(), self._job
        self._done = loop.create_future()
        connections = []
        for _ in range(job.connections):
            created_connection = await loop.create_connection(lambda: _Calls(self), *job.address)
            connections.append(created_connection[1])
        started = time.perf_counter()
        self._until = started + job.seconds
        for connection in connections:
            for _ in range(job.streams):
                self._ask(connection)
        await self._done
        self._result.seconds = time.perf_counter() - started
        for connection in connections:
            connection.close()
        return self._result

    def connection(self) -> tuple[str, Metadata]:
        return self._job.path, self._job.metadata

    def _ask(self, connection: _Calls) -> None:
        now = time.perf_counter()
        if now < self._until:
            self._open += 1
            connection.sent_at[connection.call(self._framed)] = now
        elif not self._open and not self._done.done():
            self._done.set_result(None)

    def ended(self, connection: _Calls, request: float, *, answered: bool) -> None:
        self._open -= 1
        if answered:
            self._result.answered += 1
            self._result.latencies_s.append(time.perf_counter() - request)
        else:
            self._result.failed += 1
            self._result.fault = self._result.fault or connection.fault.encode()
            self._until = 0
        self._ask(connection)


class _Calls(GrpcConnection):
    def __init__(self, owner: _Grpc) -> None:
        super().__init__(*owner.connection())
        self._owner = owner
        self.sent_at: dict[int, float] = {}
        self._with_answer: set[int] = set()

    def on_data(self, stream: int) -> None:
        self._with_answer.add(stream)

    def on_end(self, stream: int) -> None:
        answered = stream in self._with_answer
        self._with_answer.discard(stream)
        self._owner.ended(self, self.sent_at.pop(stream), answered=answered)
