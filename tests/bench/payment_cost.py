"""Measure the whole cost of a payment on PostgreSQL: the service, the database, and its log.

A payment is created, its options are requested, it is confirmed and polled until it succeeds. It is
settled with others in one transaction of a chain in another process. The capacity plan uses these
figures.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg
from florin_server.base.process_bus import parse_message
from florin_server.db.engine.postgres.notices import CHANNEL

from tests.bench import load
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
    "tup_updated + tup_deleted, pg_snapshot_xmax(pg_current_snapshot())::text::float, "
    "(SELECT sum(pg_table_size(oid) + pg_indexes_size(oid)) FROM pg_class WHERE relkind = 'r') "
    "FROM pg_stat_database WHERE datname = current_database()"
)

# a vacuum names what it used of each table; the figures are PostgreSQL's default costs of a page
_PAGES = re.compile(r"buffer usage: (\d+) hits, (\d+) reads, (\d+) dirtied")
_HIT, _READ, _DIRTIED = 1, 2, 20
_TABLES_QUERY = "SELECT string_agg(relname, ', ') FROM pg_stat_user_tables"


@dataclass(frozen=True, slots=True)
class Used:
    """Usage so far: processor seconds, transactions, bytes, changed rows."""

    service_s: float
    chain_s: float
    server_s: float
    transactions: float
    log: float
    dead_rows: float
    transaction_ids: float
    stored: float
    messages: float
    changes: float

    def each(self, before: Used) -> Mapping[str, float]:
        """Return the usage since `before`, per payment."""
        return {
            name: (getattr(self, name) - getattr(before, name)) / COUNT for name in self.__slots__
        }


class Notifications:
    """The notifications that a database sent, and the changes that they reported."""

    def __init__(self) -> None:
        self.messages = 0
        self.changes = 0

    def receive(self, _raw: object, _pid: int, _channel: str, text: object) -> None:
        _, message = parse_message(str(text))
        assert message is not None
        self.messages += 1
        self.changes += len(message)


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    server = postgres.OwnServer()
    try:
        # anvil if Node is installed: its own pace is the smallest limit
        *_, (where, item) = nodes()
        dsn = server.database.dsn
        postgres.run_coroutine(
            # it would run in some of the rounds
            lambda: postgres.run_commands(
                dsn, "ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()"
            )
        )
        with (
            item as chain,
            shop(chain, TOGETHER, FLORIN_STORE=dsn) as running,
            _listen(dsn) as sent,
        ):
            measured(chain, running, pool, server, sent)
            postgres.run_coroutine(lambda: vacuum(dsn))
            rounds = [measured(chain, running, pool, server, sent) for _ in range(ROUNDS)]
            vacuum_cost = postgres.run_coroutine(lambda: vacuum(dsn))
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
        median_of(
            "payment_messages",
            values["messages"],
            "",
            "notifications between processes that it sent",
        ),
        median_of("payment_changes", values["changes"], "", "reported by these notifications"),
        median_of(
            "payment_transaction_ids", values["transaction_ids"], "", "of transactions that write"
        ),
        Figure(
            "payment_vacuum_cost",
            vacuum_cost / COUNT / ROUNDS,
            "",
            f"of a vacuum after {COUNT * ROUNDS} payments, as PostgreSQL counts it: {_HIT} for a "
            f"page in memory, {_READ} to read one, {_DIRTIED} to change one",
        ),
        median_of("payment_dead_rows", values["dead_rows"], "", "that were changed or deleted"),
        median_of(
            "payment_settled_per_s",
            values["rate"],
            "/s",
            "from the first confirm to the last end",
        ),
    ]


@contextmanager
def _listen(dsn: str) -> Iterator[Notifications]:
    """Count notifications until the end."""
    sent, loop = Notifications(), asyncio.new_event_loop()

    async def count() -> None:
        raw = await asyncpg.connect(dsn)
        await raw.add_listener(CHANNEL, sent.receive)
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            raw.terminate()

    ready = threading.Event()
    with ThreadPoolExecutor(1) as aside:
        task = loop.create_task(count())
        aside.submit(lambda: loop.run_until_complete(asyncio.wait([task])))
        try:
            assert ready.wait(load.PATIENCE_S)
            yield sent
        finally:
            loop.call_soon_threadsafe(task.cancel)
    loop.close()


async def vacuum(dsn: str) -> float:
    """Vacuum Florin's tables, and return the cost as autovacuum would count it."""
    texts: list[str] = []
    raw = await asyncpg.connect(dsn)
    try:
        raw.add_log_listener(lambda _raw, message: texts.append(message.message))
        tables = await raw.fetchval(_TABLES_QUERY)
        # autovacuum runs later, when pages were written, and has to change them again
        await raw.execute("CHECKPOINT")
        await raw.execute(f"VACUUM (VERBOSE) {tables}")
    finally:
        await raw.close()
    pages = [tuple(map(int, each)) for text in texts for each in _PAGES.findall(text)]
    assert pages
    return sum(_HIT * hits + _READ * reads + _DIRTIED * dirtied for hits, reads, dirtied in pages)


def measured(
    chain: Node,
    running: Florin,
    pool: ProcessPoolExecutor,
    server: postgres.OwnServer,
    sent: Notifications | None = None,
) -> dict[str, float]:
    """Measure the usage per payment, and the payments settled a second (`rate`).

    Notifications are counted in `sent`, by a listener.
    """
    sent = sent or Notifications()
    before = _used(chain, running, server, sent)
    rate = settle(running, pool, prepared(chain, running, pool, COUNT))
    return {**_used(chain, running, server, sent).each(before), "rate": rate}


def _used(chain: Node, running: Florin, server: postgres.OwnServer, sent: Notifications) -> Used:
    dsn = server.database.dsn
    (figures,) = postgres.run_coroutine(lambda: postgres.list_rows(dsn, _STATISTICS_QUERY))
    return Used(
        running.cpu_s(),
        chain.cpu_s(),
        server_cpu_s(server.pid),
        *map(float, figures),
        sent.messages,
        sent.changes,
    )
