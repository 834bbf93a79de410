"""Measure payments on PostgreSQL: the store, bare asyncpg, a SQLModel session, and pgbench.

pgbench commits the rows of a create without Python: the database's own limit on this machine. The
server's processor time is separate from the client's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.tables.payments import PaymentEventRow, PaymentRow
from florin_server.domain.payments.payment import CancellationReason, Payment
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.bench.load import PATIENCE_S
from tests.bench.payment import a_payment
from tests.bench.report import Figure, median_of
from tests.bench.size import sized
from tests.support import postgres

ROUNDS, COUNT, PGBENCH_S = sized((3, 3000, 4), (1, 30, 1))
CONCURRENCY, CONNECTIONS = 64, 4


class Pace(NamedTuple):
    """Operations a second, and microseconds of CPU per operation: client and server."""

    rate: float
    cpu_us: float
    server_us: float


Work = Callable[[Payment], Awaitable[Any]]
_PEERS = {"asyncpg": "bare asyncpg", "session": "SQLModel session"}


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    """Run the same work in three ways, in turn, and pgbench after each round."""
    server = postgres.OwnServer()
    try:
        asyncio.run(_tables(server.database))
        used_s = partial(server_cpu_s, server.pid)
        rounds, commit_rates = [], []
        for _ in range(ROUNDS):
            rounds.append(asyncio.run(_round(server.database, used_s)))
            commit_rates.append(committed(server.database.dsn, PGBENCH_S))
    finally:
        server.end()
    figures = [
        figure for what in ("create", "status", "cancel") for figure in _make_figures(what, rounds)
    ]
    note = (
        f"the rows of a create, a transaction each, by pgbench over {CONCURRENCY} connections; "
        "every commit on the disk"
    )
    ratios = [
        paces["create", "store"].rate / commits
        for paces, commits in zip(rounds, commit_rates, strict=True)
    ]
    return [
        *figures,
        median_of("pg_commits_per_s", commit_rates, "/s", note),
        median_of("pg_create_vs_pgbench", ratios, "×", "by wall clock", peer="pgbench"),
    ]


def _make_figures(what: str, rounds: list[dict[tuple[str, str], Pace]]) -> list[Figure]:
    ours = [paces[what, "store"] for paces in rounds]
    cpu_us, server_us = (median(pace[i] for pace in ours) for i in (1, 2))
    note = f"{CONCURRENCY} at once; the server {server_us:.0f} µs CPU each"
    rates = [pace.rate for pace in ours]
    ratios = []
    for peer in ("asyncpg", "session"):
        theirs = [paces[what, peer] for paces in rounds]
        by_rate = [a.rate / b.rate for a, b in zip(ours, theirs, strict=True)]
        by_cpu = median(b.cpu_us / a.cpu_us for a, b in zip(ours, theirs, strict=True))
        ratio_note = f"by wall clock; by CPU {by_cpu:.2f}"
        ratios.append(
            median_of(f"pg_{what}_vs_{peer}", by_rate, "×", ratio_note, peer=_PEERS[peer])
        )
    own = [pace.server_us for pace in ours]
    return [
        median_of(f"pg_{what}_per_s", rates, "/s", note, cpu_us=cpu_us),
        median_of(f"pg_{what}_server_us", own, "µs", "CPU of PostgreSQL's own processes"),
        *ratios,
    ]


def server_cpu_s(pid: int) -> float:
    """Return the processor time so far of a server and all its children."""
    ended_s, running_s = _times_s(pid, (11, 12, 13, 14)), 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # a process can end while it is read; its parent then has its time
        with suppress(OSError):
            if int(_fields(int(stat.parent.name))[1]) == pid:
                running_s += _times_s(int(stat.parent.name), (11, 12))
    return ended_s + running_s


def _times_s(pid: int, places: Sequence[int]) -> float:
    fields = _fields(pid)
    return sum(int(fields[place]) for place in places) / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def committed(dsn: str, seconds: int) -> float:
    """Return the transactions a second that pgbench commits, each with the rows of a create."""
    payment = a_payment()
    event_row = payments.to_event_row(payment, "created")
    rows = [
        _literally(statement.postgres.sql, statement.postgres.encode_params(row), payment.id)
        for statement, row in ((payments._INSERT, payment), (payments._EVENT, event_row))  # noqa: SLF001
    ]
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        script = Path(folder) / "create.sql"
        number = "\\set n random(1, 9223372036854775807)"
        script.write_text("\n".join([number, "BEGIN;", *rows, "COMMIT;", ""]))
        command = [
            *(str(postgres.get_program("pgbench")), "--no-vacuum", "--protocol", "prepared"),
            *("--client", str(CONCURRENCY), "--jobs", "2", "--time", str(seconds)),
            *("--file", str(script), dsn),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + PATIENCE_S, check=False
        )
    rate = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or rate is None:
        raise RuntimeError(f"pgbench failed: {done.stderr.strip()[-500:]}")
    return float(rate[1])


def _literally(sql: str, values: Sequence[Any], name: str) -> str:
    """Return a statement with its values inlined, and another ID on each run."""

    def format_value(match: re.Match[str]) -> str:
        value = values[int(match[1]) - 1]
        if value == name:
            return "('pay_' || :n::text)"
        if value is None or isinstance(value, bool | int | Decimal):
            return "NULL" if value is None else str(value)
        return f"'\\x{value.hex()}'" if isinstance(value, bytes) else f"'{value}'"

    return re.sub(r"\$(\d+)", format_value, sql) + ";"


async def _tables(database: DatabaseConfig) -> None:
    await (await open_store(database)).close()


async def _round(
    database: DatabaseConfig, used_s: Callable[[], float]
) -> dict[tuple[str, str], Pace]:
    paces: dict[tuple[str, str], Pace] = {}
    for name, begin in (("store", _store), ("asyncpg", _asyncpg), ("session", _session)):
        works, end = await begin(database)
        new_payments = [a_payment() for _ in range(COUNT)]
        for what, work in zip(("create", "status", "cancel"), works, strict=True):
            paces[what, name] = await _pace(work, new_payments, used_s)
        await end()
    return paces


async def _pace(work: Work, new_payments: list[Payment], used_s: Callable[[], float]) -> Pace:
    upcoming = iter(new_payments)

    async def worker() -> None:
        for payment in upcoming:
            await work(payment)

    server_s, cpu, began = used_s(), time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    us_per_payment = 1e6 / len(new_payments)
    return Pace(
        len(new_payments) / seconds, cpu * us_per_payment, (used_s() - server_s) * us_per_payment
    )


async def _store(database: DatabaseConfig) -> Any:
    store = await open_store(database)
    by, at = CancellationReason.BY_MERCHANT, itertools.count(time.time_ns() // 1000)
    return (
        lambda payment: store.write(payments.create(payment)),
        lambda payment: store.payments.find(payment.id),
        lambda payment: store.write(payments.cancel(payment.id, by, next(at))),
    ), store.close


async def _asyncpg(database: DatabaseConfig) -> Any:
    """Run the same statements, one transaction each, on as many connections."""
    import asyncpg

    pool = await asyncpg.create_pool(
        database.dsn,
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        reset=_nothing,
        statement_cache_size=200,
    )
    insert, event = payments._INSERT.postgres, payments._EVENT.postgres  # noqa: SLF001
    get, change = payments._FIND_MANY.postgres, payments._CANCEL.postgres  # noqa: SLF001

    async def create(payment: Payment) -> None:
        event_row = payments.to_event_row(payment, "created")
        async with pool.acquire() as raw, raw.transaction():
            await raw.execute(insert.sql, *insert.encode_params(payment))
            await raw.execute(event.sql, *event.encode_params(event_row))

    async def status(payment: Payment) -> None:
        async with pool.acquire() as raw:
            await raw.fetch(get.sql, *get.encode_params({"ids": [payment.id]}))

    async def cancel(payment: Payment) -> None:
        by, now_us = CancellationReason.BY_MERCHANT, time.time_ns() // 1000
        params = {"payment_id": payment.id, "now_s": now_us // 1_000_000, "now_us": now_us}
        async with pool.acquire() as raw, raw.transaction():
            rows = await raw.fetch(
                change.sql, *change.encode_params(params | {"cancelled_reason": by})
            )
            (changed,) = change.read_rows(rows)
            await raw.execute(
                event.sql, *event.encode_params(payments.to_event_row(changed, "cancel"))
            )

    return (create, status, cancel), pool.close


async def _session(database: DatabaseConfig) -> Any:
    """Write with the models as usual: objects, sessions, a commit each."""
    import asyncpg

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: asyncpg.connect(database.dsn),
        pool_size=CONNECTIONS,
        max_overflow=0,
    )
    names = [column.name for column in PaymentRow.__table__.columns]  # type: ignore[attr-defined]

    async def create(payment: Payment) -> None:
        async with AsyncSession(engine) as session:
            session.add(PaymentRow(**{name: getattr(payment, name) for name in names}))
            session.add(PaymentEventRow(**payments.to_event_row(payment, "created")))
            await session.commit()

    async def status(payment: Payment) -> None:
        async with AsyncSession(engine) as session:
            await session.get(PaymentRow, payment.id)

    async def cancel(payment: Payment) -> None:
        async with AsyncSession(engine) as session:
            row = await session.get(PaymentRow, payment.id, with_for_update=True)
            assert row is not None
            row.status, row.version = type(row.status)("cancelled"), row.version + 1
            columns = {"payment_id": row.id, "version": row.version, "status": row.status}
            session.add(PaymentEventRow(**columns, at_us=1, cause="cancel", detail=None))
            await session.commit()

    return (create, status, cancel), engine.dispose


async def _nothing(_raw: Any) -> None:
    """Skip the pool's reset: its round trip per use is not the statements' cost."""
