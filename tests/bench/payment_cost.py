"""Measure the whole cost of a payment on PostgreSQL: the service, the database, and its log.

A payment is created, its options are requested, it is confirmed and polled until it succeeds. It is
settled with others in one transaction of a chain in another process. The capacity plan uses these
figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.bench.database import server_cpu_s
from tests.bench.florin import Florin
from tests.bench.node import Node, nodes
from tests.bench.payments import settle
from tests.bench.report import Figure, median_of
from tests.bench.settle import prepared, shop
from tests.bench.size import sized
from tests.support import postgres

ROUNDS, COUNT = sized((3, 300), (1, 3))
TOGETHER = 50
_STATISTICS_QUERY = (
    "SELECT xact_commit + xact_rollback, pg_current_wal_lsn() - '0/0'::pg_lsn, "
    "tup_updated + tup_deleted, "
    "(SELECT sum(pg_table_size(oid) + pg_indexes_size(oid)) FROM pg_class WHERE relkind = 'r') "
    "FROM pg_stat_database WHERE datname = current_database()"
)


@dataclass(frozen=True, slots=True)
class Used:
    """Usage so far: processor seconds, transactions, bytes, changed rows."""

    service_s: float
    chain_s: float
    server_s: float
    transactions: float
    log: float
    dead_rows: float
    stored: float

    def each(self, before: Used) -> Mapping[str, float]:
        """Return the usage since `before`, per payment."""
        return {
            name: (getattr(self, name) - getattr(before, name)) / COUNT for name in self.__slots__
        }


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    server = postgres.OwnServer()
    try:
        # anvil if Node is installed: its own pace is the smallest limit
        *_, (where, item) = nodes()
        dsn = server.database.dsn
        with item as chain, shop(chain, TOGETHER, FLORIN_STORE=dsn) as running:
            rounds = [measured(chain, running, pool, server) for _ in range(-1, ROUNDS)][1:]
    finally:
        server.end()
    on = "anvil" if where else "the embedded chain, in another process"
    note = f"{COUNT} payments, at most {TOGETHER} in a transaction, on {on}"
    values = {name: [each_item[name] for each_item in rounds] for name in rounds[0]}
    service_us, server_us = (
        [seconds * 1e6 for seconds in values[name]] for name in ("service_s", "server_s")
    )
    return [
        median_of("payment_us", service_us, "µs", f"CPU of the service; {note}"),
        median_of("payment_server_us", server_us, "µs", "CPU of PostgreSQL's processes"),
        median_of(
            "payment_transactions", values["transactions"], "", "that PostgreSQL ended, reads too"
        ),
        median_of("payment_log_bytes", values["log"], "B", "of PostgreSQL's write-ahead log"),
        median_of(
            "payment_stored_bytes", values["stored"], "B", "by which tables and indexes grew"
        ),
        median_of("payment_dead_rows", values["dead_rows"], "", "that were changed or deleted"),
        median_of(
            "payment_settled_per_s",
            values["rate"],
            "/s",
            "from the first confirm to the last end",
        ),
    ]


def measured(
    chain: Node, running: Florin, pool: ProcessPoolExecutor, server: postgres.OwnServer
) -> dict[str, float]:
    """Measure the usage per payment, and the payments settled a second (`rate`)."""
    before = _used(chain, running, server)
    rate = settle(running, pool, prepared(chain, running, pool, COUNT))
    return {**_used(chain, running, server).each(before), "rate": rate}


def _used(chain: Node, running: Florin, server: postgres.OwnServer) -> Used:
    dsn = server.database.dsn
    (figures,) = postgres.run_coroutine(lambda: postgres.list_rows(dsn, _STATISTICS_QUERY))
    service_s, chain_s = running.cpu_s(), chain.cpu_s()
    return Used(service_s, chain_s, server_cpu_s(server.pid), *map(float, figures))
