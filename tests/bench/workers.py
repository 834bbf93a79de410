"""Compare two processes of one service with one, on PostgreSQL and in front of one chain.

Rates show how much more two serve here, where client, database and chain use the same cores. The
use per request shows what two serve with enough cores: twice as much, if it is equal.

Two processes have twice the callers of one, so that as many requests are committed together. Two
busy cores share caches and power, whatever runs on them. The use of one process is therefore
measured beside a program that only counts. One request at a time leaves the machine's part out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median

from tests.bench import http1, load
from tests.bench.database import server_cpu_s
from tests.bench.florin import Florin
from tests.bench.load import RestJob
from tests.bench.node import Node, nodes
from tests.bench.report import Figure, median_of
from tests.bench.settle import prepared, shop
from tests.bench.settle import settle as settled
from tests.bench.setup import PRICE, new_payments, with_accounts
from tests.bench.size import sized
from tests.support.postgres import OwnServer

ROUNDS, SECONDS, COUNT = sized((5, 2.0, 300), (1, 0.1, 3))
TOGETHER = 50
# of each process
CALLERS = 64
# two processes, as many for PostgreSQL, the client, and the chain
_CORES = 6


@dataclass(frozen=True, slots=True)
class Side:
    """A service with a number of processes, and its own database."""

    running: Florin
    server: OwnServer
    processes: int

    def cpu_s(self) -> float:
        return self.running.cpu_s() + server_cpu_s(self.server.pid)


# the number served, and the seconds
_Work = Callable[[Side], tuple[int, float]]


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    with ExitStack() as stack:
        *_, (_, item) = nodes()
        chain = stack.enter_context(item)
        sides = [_side(stack, chain, processes) for processes in (1, 2)]
        requests: dict[str, Callable[[Side], bytes]] = {
            "status": lambda side: _status(pool, side),
            "create": _create,
        }
        figures: list[Figure] = []
        for name, request in requests.items():
            figures += _measure_busy(name, partial(_ask, pool, request, CALLERS), *sides)
            figures.append(_measure_quiet(name, partial(_ask, pool, request, None), *sides))
        return [*figures, *_measure_busy("payments", partial(_pay, pool, chain), *sides)]


def _side(stack: ExitStack, chain: Node, processes: int) -> Side:
    server = OwnServer()
    stack.callback(server.end)
    dsn = server.database.dsn
    command = ("serve", "--workers", str(processes))
    # so that it does not count as a trial installation
    more = {"FLORIN_STORE": dsn, "FLORIN_DEMO": "false"}
    running = stack.enter_context(shop(chain, TOGETHER, *command, **more))
    return Side(with_accounts(running, server.database), server, processes)


def _measure_busy(name: str, work: _Work, single: Side, double: Side) -> list[Figure]:
    rounds = []
    for _ in range(-1, ROUNDS):
        alone = _measured(work, single)
        with _other_core_busy():
            _, beside_us = _measured(work, single)
        rounds.append((*alone, beside_us, *_measured(work, double)))
    del rounds[0]
    alone_us, beside_us, two_us = (median(each[i] for each in rounds) for i in (1, 2, 4))
    cores = os.cpu_count() or 1
    return [
        median_of(
            f"workers_{name}_rate",
            [rate / alone_rate for alone_rate, _, _, rate, _ in rounds],
            "×",
            f"two processes against one, with {cores} cores for them, PostgreSQL, chain and caller",
            at_least=1.7 if cores >= _CORES else None,
            peer="one process",
        ),
        median_of(
            f"workers_{name}_cpu",
            [beside / both for _, _, beside, _, both in rounds],
            "×",
            f"service and PostgreSQL use {alone_us:,.0f} µs with one process alone, "
            f"{beside_us:,.0f} beside a program that counts, {two_us:,.0f} with two processes",
            at_least=0.9,
            peer="one process beside a busy core",
        ),
    ]


def _measure_quiet(name: str, work: _Work, single: Side, double: Side) -> Figure:
    rounds = [[_measured(work, side)[1] for side in (single, double)] for _ in range(-1, ROUNDS)]
    del rounds[0]
    one_us, two_us = (median(each[i] for each in rounds) for i in range(2))
    return median_of(
        f"workers_{name}_one_by_one_cpu",
        [alone / both for alone, both in rounds],
        "×",
        f"service and PostgreSQL use {one_us:,.0f} µs with one process, {two_us:,.0f} with two",
        at_least=0.9,
        peer="one process",
    )


@contextmanager
def _other_core_busy() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _measured(work: _Work, side: Side) -> tuple[float, float]:
    """Return requests served a second, and µs of processor time per request."""
    before = side.cpu_s()
    count, seconds = work(side)
    return count / seconds, max(side.cpu_s() - before, 0.01) / count * 1e6


def _status(pool: ProcessPoolExecutor, side: Side) -> bytes:
    (payment,) = new_payments(side.running, pool, 1)
    path = f"/v1/gateway/payment/{payment}/status"
    return http1.request("GET", path, side.running.wallet)


def _create(side: Side) -> bytes:
    return http1.request("POST", "/v1/payments", side.running.merchant, {"amount": PRICE})


def _ask(
    pool: ProcessPoolExecutor, make: Callable[[Side], bytes], callers: int | None, side: Side
) -> tuple[int, float]:
    """Ask for `SECONDS`, with so many callers of each process; None is one caller of all."""
    connections = callers * side.processes if callers else 1
    job = RestJob(side.running.http, (make(side),), connections, seconds=SECONDS, expect=b"status")
    result = load.run(pool, job)
    return result.answered, result.seconds


def _pay(pool: ProcessPoolExecutor, chain: Node, side: Side) -> tuple[int, float]:
    count = COUNT * side.processes
    rate = settled(side.running, pool, prepared(chain, side.running, pool, count))
    return count, count / rate
