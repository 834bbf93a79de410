"""Compare two processes of one service with one, on PostgreSQL and in front of one chain.

Rates show how much more two serve here, where client, database and chain use the same cores. The
use per request shows what two serve with enough cores: twice as much, if it is equal. On two cores
two busy processes use more only because they share caches with all others: one request at a time
leaves that out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
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
# two processes, as many for PostgreSQL, the client, and the chain
_CORES = 6


@dataclass(frozen=True, slots=True)
class Side:
    """A service with a number of processes, and its own database."""

    running: Florin
    server: OwnServer

    def cpu_s(self) -> float:
        return self.running.cpu_s() + server_cpu_s(self.server.pid)


# the number served, and the seconds
_Work = Callable[[Side], tuple[int, float]]


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    with ExitStack() as stack:
        *_, (_, item) = nodes()
        chain = stack.enter_context(item)
        sides = [_side(stack, chain, workers) for workers in ("1", "2")]
        works: dict[str, _Work] = {
            "status": lambda side: _asked(pool, side, _status(pool, side)),
            "create": lambda side: _asked(pool, side, _create(side)),
            "status_one_by_one": lambda side: _asked(pool, side, _status(pool, side), 1),
            "create_one_by_one": lambda side: _asked(pool, side, _create(side), 1),
            "payments": lambda side: _paid(pool, chain, side),
        }
        return [figure for name, work in works.items() for figure in _figures(name, work, sides)]


def _side(stack: ExitStack, chain: Node, workers: str) -> Side:
    server = OwnServer()
    stack.callback(server.end)
    dsn = server.database.dsn
    command = ("serve", "--workers", workers)
    # so that it does not count as a trial installation
    more = {"FLORIN_STORE": dsn, "FLORIN_DEMO": "false"}
    running = stack.enter_context(shop(chain, TOGETHER, *command, **more))
    return Side(with_accounts(running, server.database), server)


def _figures(name: str, work: _Work, sides: list[Side]) -> list[Figure]:
    rates: list[float] = []
    costs: list[list[float]] = []
    for _ in range(-1, ROUNDS):
        both = [_measured(work, side) for side in sides]
        (alone, alone_us), (together, together_us) = both
        rates.append(together / alone)
        costs.append([alone_us, together_us])
    del rates[0], costs[0]
    one_us, two_us = (median(both[i] for both in costs) for i in range(2))
    cores = os.cpu_count() or 1
    output = f"two processes against one, with {cores} cores for them, PostgreSQL, chain and caller"
    note = f"service and PostgreSQL use {one_us:,.0f} µs with one process, {two_us:,.0f} with two"
    ratios = [alone / together for alone, together in costs]
    is_busy = not name.endswith("one_by_one")
    at_least = 0.85 if is_busy else 0.9
    use = median_of(f"workers_{name}_cpu", ratios, "×", note, at_least=at_least, peer="one process")
    if not is_busy:
        return [use]
    rate_at_least = 1.7 if cores >= _CORES else None
    return [
        median_of(
            f"workers_{name}_rate",
            rates,
            "×",
            output,
            at_least=rate_at_least,
            peer="one process",
        ),
        use,
    ]


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


def _asked(
    pool: ProcessPoolExecutor, side: Side, request: bytes, connections: int = 64
) -> tuple[int, float]:
    job = RestJob(side.running.http, (request,), connections, seconds=SECONDS, expect=b"status")
    result = load.run(pool, job)
    return result.answered, result.seconds


def _paid(pool: ProcessPoolExecutor, chain: Node, side: Side) -> tuple[int, float]:
    rate = settled(side.running, pool, prepared(chain, side.running, pool, COUNT))
    return COUNT, COUNT / rate
