"""Measure years of payments on PostgreSQL: what leaves the disk, and what calls cost.

`FLORIN_BENCH_ARCHIVE` is another number of payments, for example ten million, and
`FLORIN_BENCH_ARCHIVE_DAYS` another age at which they leave the store.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from florin_server.base.clock import SystemClock
from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.archive import get_archive_month
from florin_server.domain.payments.months import get_month
from florin_server.money.archive.service import archiving, partitions, transactions
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.service.reader import PaymentArchive
from florin_server.money.archive.store import closed_transactions
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import list_rows, listing, payments
from florin_server.money.payments.store.listing import PaymentListFilters, PaymentListOrder

from tests.bench import years
from tests.bench.history import MERCHANTS, PARTNER
from tests.bench.payment import a_payment
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import postgres
from tests.support.partitions import begin_months
from tests.support.store_factories import make_option

PAYMENTS = int(os.environ.get("FLORIN_BENCH_ARCHIVE", sized(240_000, 2_400)))
MONTHS, COUNT, ACCOUNTS, FEW = 12, sized(200, 3), 6, 100
DAYS = int(os.environ.get("FLORIN_BENCH_ARCHIVE_DAYS", "90"))
_DAY_US = 86_400_000_000
_SIZE = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind IN ('r', 'm')"
_NEWEST_FIRST = PaymentListOrder(by_amount=False, descending=True)
_BY_AMOUNT = PaymentListOrder(by_amount=True, descending=True)


@dataclass
class _App:
    """The parts of a service that archiving uses."""

    store: Store
    clock: SystemClock
    randbytes: Any = os.urandom


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    server = postgres.OwnServer()
    folder = Path(tempfile.mkdtemp(prefix="florin-archive-"))
    try:
        return asyncio.run(_measure(server.database, folder))
    finally:
        server.end()
        shutil.rmtree(folder)


async def _measure(database: DatabaseConfig, folder: Path) -> list[Figure]:
    clock = SystemClock()
    now_month = get_month(clock.now_us())
    months = range(now_month - MONTHS, now_month)
    admin = postgres.to_database_dsn(database.dsn, "postgres")
    await (await open_store(database)).close()
    await postgres.run_commands(admin, "CREATE DATABASE small TEMPLATE florin")
    few = DatabaseConfig(postgres.to_database_dsn(database.dsn, "small"))
    for place, count in ((few, PAYMENTS // FEW), (database, PAYMENTS)):
        started = time.perf_counter()
        await begin_months(place, months[0])
        await years.write(place, months, count // MONTHS)
        await postgres.run_commands(place.dsn, "VACUUM ANALYZE")
        _tell(f"{count:,} payments written in {time.perf_counter() - started:.0f} s")
    small = await _measure_calls(few)
    before_bytes, before = await _read_size(database), await _measure_calls(database)
    _tell(f"{before_bytes / 1e9:.2f} GB; calls in ms: {before}")
    figures = await _archive(database, folder, clock)
    after_bytes, after = await _read_size(database), await _measure_calls(database)
    _tell(f"{after_bytes / 1e9:.2f} GB; calls in ms: {after}")
    archive_bytes = await asyncio.to_thread(_sum_sizes, folder)
    note = (
        f"{PAYMENTS:,} payments of {MONTHS} months, {before_bytes / 1e9:.2f} GB in the store; "
        f"{after_bytes / 1e9:.2f} GB after {MONTHS - DAYS // 30} months left it, and "
        f"{archive_bytes / 1e9:.2f} GB in files"
    )
    figures.append(
        Figure("archive_store_left", after_bytes / before_bytes, "×", note, peer="store before")
    )
    for name, small_ms in small.items():
        texts = ", ".join(
            f"{times[name]:.2f} ms {when}"
            for times, when in (
                (small, f"among {PAYMENTS // FEW:,}"),
                (before, "before the archive"),
                (after, "after it"),
            )
        )
        peer = f"{FEW} times fewer payments"
        figures += [
            Figure(f"archive_{name}_before", before[name] / small_ms, "×", texts, peer=peer),
            Figure(f"archive_{name}_after", after[name] / small_ms, "×", texts, peer=peer),
        ]
    return figures


async def _archive(database: DatabaseConfig, path: Path, clock: SystemClock) -> list[Figure]:
    store = await open_store(database)
    try:
        archive = PaymentArchive(store, clock.now_us, path)
        app = _App(store, clock)
        folder = archive.folder
        if folder is None:
            raise RuntimeError("the archive has a folder")
        end = get_archive_month(clock.now_us() - DAYS * _DAY_US)
        after_id, written = archiving.FIRST_ID, []
        started, used = time.perf_counter(), time.process_time()
        while True:
            result = await archiving.write_file(app, folder, after_id, end, clock.now_us())
            if result.file is None:
                break
            after_id = result.last_id
            written.append(result.file)
        write_s, used_s = time.perf_counter() - started, time.process_time() - used
        count = sum(file.payments for file in written)
        started = time.perf_counter()
        removed = 0
        for month in sorted({file.month for file in written}):
            month_files = [file for file in written if file.month == month]
            removed += await archiving.remove_payments(app, folder, month_files)
        remove_s = time.perf_counter() - started
        of_transactions = await _archive_transactions(app, folder)
        started = time.perf_counter()
        dropped = await partitions.drop_archived_months(app, end)
        drop_s = time.perf_counter() - started
        _tell(f"{dropped} months dropped in {drop_s:.1f} s")
        if removed != count:
            raise RuntimeError(f"{removed} of {count} payments left the store")
        reads = []
        for file in written[:: max(1, len(written) // 50)]:
            started = time.perf_counter()
            archived = await archive.find(file.last_id)
            if archived is None:
                raise RuntimeError(f"{file.last_id} is in no file")
            reads.append((time.perf_counter() - started) * 1000)
    finally:
        await store.close()
    return [
        Figure(
            "archive_written_rate",
            count / write_s,
            "payments/s",
            f"{count:,} in {write_s:.0f} s; {used_s / count * 1e6:.0f} µs of CPU each",
        ),
        Figure("archive_removed_rate", count / remove_s, "payments/s", f"in {remove_s:.0f} s"),
        of_transactions,
        Figure(
            "archive_dropped_months", dropped, "months", f"of partitions dropped in {drop_s:.1f} s"
        ),
        Figure("archive_read_ms", median(reads), "ms", "an archived payment by its id"),
    ]


async def _archive_transactions(app: _App, folder: ArchiveFolder) -> Figure:
    """Move the transactions of the archived payments to files."""
    before_us = app.clock.now_us() - DAYS * _DAY_US
    after, count, started = closed_transactions.FIRST, 0, time.perf_counter()
    while True:
        written = await transactions.write_file(app, folder, after, before_us)
        if written.file is None:
            break
        after = written.last
        count += await transactions.remove_transactions(app, folder, written.file, before_us)
    if not count:
        raise RuntimeError("no transaction left the store")
    rate = count / (time.perf_counter() - started)
    return Figure(
        "archive_transactions_rate", rate, "transactions/s", f"{count:,} written and deleted"
    )


async def _measure_calls(database: DatabaseConfig) -> dict[str, float]:
    """Return the median milliseconds of each call, one at a time."""
    store = await open_store(database)
    try:
        return {
            "list": await _time(lambda _: _list(store, _NEWEST_FIRST)),
            "list_by_amount": await _time(lambda _: _list(store, _BY_AMOUNT)),
            "create": await _time(lambda _: store.write(payments.create(_make_payment()))),
            "options": await _time(lambda _: _offer(store)),
        }
    finally:
        await store.close()


async def _time(call: Callable[[int], Awaitable[Any]]) -> float:
    for number in range(10):
        await call(number)
    times = []
    for number in range(COUNT):
        started = time.perf_counter()
        await call(number)
        times.append((time.perf_counter() - started) * 1000)
    return median(times)


async def _list(store: Store, order: PaymentListOrder) -> None:
    now_us = SystemClock().now_us()
    filters = replace(PaymentListFilters(PARTNER, live=False), merchants=MERCHANTS[:1])
    places = await store.read(
        listing.list_positions(filters, order, 51, None, now_us, is_sparse=False)
    )
    await store.read(list_rows.list_rows([text for _, text in places[:50]], now_us))


def _make_payment() -> Any:
    return replace(a_payment(), partner_id=PARTNER, merchant_id=MERCHANTS[1], live=False)


async def _offer(store: Store) -> None:
    """Store and read the options of six accounts of a new payment."""
    payment = _make_payment()
    await store.write(payments.create(payment))
    payers = [f"eip155:1:0x{number:040x}" for number in range(ACCOUNTS)]
    options = [
        make_option(payment, id=f"opt_{number}", payer=payer, reference=f"0x{payment.id}{number}")
        for number, payer in enumerate(payers)
    ]
    await store.write(payments.put_options(options))
    await store.read(payments.list_options(payment.id, payers))


async def _read_size(database: DatabaseConfig) -> int:
    ((size,),) = await postgres.list_rows(database.dsn, _SIZE)
    return int(size)


def _sum_sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def _tell(text: str) -> None:
    print(text, flush=True)
