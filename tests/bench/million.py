"""Measure a million payments in PostgreSQL: pages, and the extra cost of the next payment.

The payments are those that `pages` reads on SQLite, copied like by `florin store copy`. Two
services in front of one chain make the next ones in turn: one has an empty database.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

from florin_server.app import copies
from florin_server.db.engine.where import DatabaseConfig

from tests.bench import history, pages
from tests.bench.florin import Florin
from tests.bench.node import Node, nodes
from tests.bench.payment_cost import COUNT, TOGETHER, measured
from tests.bench.report import Figure, median_of
from tests.bench.settle import shop
from tests.bench.setup import with_accounts
from tests.bench.size import sized
from tests.support.postgres import OwnServer

ROUNDS = sized(3, 1)


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    empty, full = OwnServer(), OwnServer()
    try:
        copied_s = _fill(full.database)
        output = f"{pages.PAYMENTS:,} payments copied from SQLite in {copied_s:.0f} s"
        figures = asyncio.run(pages.measured(full.database, "pg_page", output))
        *_, (_, item) = nodes()
        with (
            item as chain,
            shop(chain, TOGETHER, FLORIN_STORE=empty.database.dsn) as before,
            shop(chain, TOGETHER, FLORIN_STORE=full.database.dsn) as after,
        ):
            # test accounts are created in an empty store only
            behind = (with_accounts(after, full.database), full)
            return figures + _compared(pool, chain, (before, empty), behind)
    finally:
        for server in (empty, full):
            server.end()


def _fill(database: DatabaseConfig) -> float:
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        path = Path(folder) / "florin.db"
        history.write(path, pages.PAYMENTS)
        started = time.perf_counter()
        asyncio.run(copies.restore(path, database))
        return time.perf_counter() - started


def _compared(
    pool: ProcessPoolExecutor, chain: Node, *shops: tuple[Florin, OwnServer]
) -> list[Figure]:
    rounds = [
        [measured(chain, running, pool, server) for running, server in shops]
        for _ in range(-1, ROUNDS)
    ][1:]
    used = [[(item["service_s"] + item["server_s"]) * 1e6 for item in both] for both in rounds]
    theirs, ours = (median(both[i] for both in used) for i in range(2))
    note = (
        f"processor time of service and PostgreSQL for a whole payment, options and confirm in it: "
        f"{ours:,.0f} µs behind {pages.PAYMENTS:,} payments, {theirs:,.0f} µs behind none; "
        f"{COUNT} payments a round"
    )
    ratios = [full / empty for empty, full in used]
    rates = [full["rate"] / empty["rate"] for empty, full in rounds]
    return [
        median_of("million_vs_empty", ratios, "×", note, at_most=1.2, peer="empty database"),
        median_of("million_rate_vs_empty", rates, "×", "payments a second, the same rounds"),
    ]
