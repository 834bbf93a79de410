"""Measure exports of a store: rows a second and memory, against a bare read of the same rows."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from florin_server.money.ledger.store import books
from florin_server.money.open_store import open_store

from tests.bench.load import child
from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support import export_stores, store_factories

PAYMENTS, AT_ONCE = sized(100_000, 1_000), 200
FORMATS = ("csv", "jsonl", "parquet")
# one second apart: 15 minutes is recent, as in a busy shop
STEP_US = 1_000_000
# the source tables of an export
TABLES = ("payment", "payment_event", "payment_option", "issued", "confirm", "chain_tx")
TABLES = (*TABLES, "chain_tx_item", "ledger_journal", "ledger_transfer")


@dataclass(frozen=True)
class Taken:
    """One export: rows, seconds, and the peak growth of the process in MB."""

    rows: int
    seconds: float
    grown_mb: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as name:
        folder = Path(name)
        store = folder / "florin.db"
        started = time.perf_counter()
        balances = asyncio.run(_write(store))
        made_s = time.perf_counter() - started
        bare = _select(store)
        taken = {}
        for format_ in FORMATS:
            # a separate process, so that memory is not shared between measurements
            with child() as pool:
                taken[format_] = pool.submit(_export, store, folder / format_, format_).result()
        again = _export(store, folder / "csv", "csv")
        if (
            export_stores.sum_postings(export_stores.read_rows(folder / "jsonl", "ledger"))
            != balances
        ):
            raise RuntimeError("what was exported is not what was booked")
    output = f"{PAYMENTS:,} payments made in {made_s:.0f} s by the store's operations"
    figures = [
        Figure(
            f"export_{format_}_rows_per_s",
            item.rate,
            "/s",
            f"{output}; {item.rows:,} rows in {item.seconds:.1f} s",
        )
        for format_, item in taken.items()
    ]
    csv = taken["csv"]
    return [
        *figures,
        Figure(
            "export_vs_select",
            csv.rate / bare,
            "×",
            f"CSV; SELECT * of the same tables alone reads {bare:,.0f} rows/s",
            at_least=0.03,
        ),
        Figure(
            "export_memory_mb",
            max(taken[item].grown_mb for item in ("csv", "jsonl")),
            "MB",
            "by which the process grew at its most; with Parquet, Arrow's libraries included: "
            f"{taken['parquet'].grown_mb:.0f}",
            at_most=200,
        ),
        Figure(
            "export_again_s",
            again.seconds,
            "s",
            f"the next run, with nothing new: {again.rows} rows",
        ),
    ]


async def _write(path: Path) -> dict[tuple[str, str], int]:
    """Create the store; return the balances of its books."""
    store = await open_store(path)
    try:
        shop = export_stores.ExportStoreBuilder(
            await store_factories.acquire_lease(store), step_us=STEP_US
        )
        for _ in range(PAYMENTS // AT_ONCE):
            await store.write(export_stores.make_payments(shop, AT_ONCE))
        page = await store.scan(books.list_balances(None, None, PAYMENTS))
        assert page.last is None
        return {row[:2]: row[2] for row in page.balances}
    finally:
        await store.close()


def _select(path: Path) -> float:
    """Return the rows a second of a read that discards them."""
    rows = 0
    started = time.perf_counter()
    with closing(sqlite3.connect(path)) as raw:
        for table in TABLES:
            for _ in raw.execute(f"SELECT * FROM {table}"):
                rows += 1
    return rows / (time.perf_counter() - started)


def _export(store: Path, to: Path, format_: str) -> Taken:
    # reset the peak
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_mb()
    started = time.perf_counter()
    rows = sum(export_stores.export_store(store, to, format_).values())
    return Taken(rows, time.perf_counter() - started, _peak_mb() - before)


def _peak_mb() -> float:
    """Return the peak memory of this process; getrusage would include its parent's."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024
