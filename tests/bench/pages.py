"""Measure pages of a list of a million payments: first pages, deep pages, and the console's."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import list_rows, listing
from florin_server.money.payments.store.listing import (
    PaymentListFilters,
    PaymentListOrder,
    PaymentPosition,
)
from rich.console import Console
from rich.table import Table

from tests.bench import console, history
from tests.bench.florin import florin
from tests.bench.history import END_US, MERCHANTS, PARTNER, RARE
from tests.bench.report import Figure
from tests.bench.size import sized

PAYMENTS = sized(1_000_000, 20_000)
LIMIT, ROUNDS = 50, sized(15, 1)
DEPTHS = (0.0, 0.1, 0.5, 0.99)
_ALL = PaymentListFilters(PARTNER, live=False)
SCOPES = {"partner": _ALL, "merchant": replace(_ALL, merchants=MERCHANTS[:1])}
ORDERS = {"date": PaymentListOrder(False, True), "amount": PaymentListOrder(True, True)}


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        path = Path(folder) / "florin.db"
        started = time.perf_counter()
        history.write(path, PAYMENTS)
        made_s = time.perf_counter() - started
        output = f"{PAYMENTS:,} payments written in {made_s:.0f} s; pages of {LIMIT}"
        figures = asyncio.run(measured(path, "page", output))
    with florin() as running:
        return [*figures, *console.measure(running, pool)]


async def measured(where: Path | DatabaseConfig, name: str, output: str) -> list[Figure]:
    """Return figures of a store filled by `history`; their names start with `name`."""
    store = await open_store(where)
    try:
        pages = {
            (scope, order): await _pages_ms(store, SCOPES[scope], ORDERS[order])
            for scope in SCOPES
            for order in ORDERS
        }
        firsts = {scope: await _first_ms(store, SCOPES[scope]) for scope in SCOPES}
        rare = await _first_ms(store, replace(_ALL, statuses=(PaymentStatus(RARE),)))
    finally:
        await store.close()
    _show(pages, {**firsts, f"partner, only {RARE}": rare})
    worst = max(times[-1] / times[0] for times in pages.values())
    slowest = max(max(times) for times in pages.values())
    return [
        Figure(
            f"{name}_deep_vs_first",
            worst,
            "×",
            f"{output}; the worst of partner and merchant, by date and by amount: the page behind "
            f"{DEPTHS[-1]:.0%} of the list against its first one",
            at_most=2,
        ),
        Figure(
            f"{name}_ms", slowest, "ms", f"{output}; the slowest median, rows and all, no totals"
        ),
        Figure(
            f"{name}_with_totals_ms", firsts["partner"], "ms", f"{output}; first page and totals"
        ),
        Figure(f"{name}_rare_status_ms", rare, "ms", f"{output}; first page and totals of {RARE}"),
    ]


async def _pages_ms(
    store: Store, filters: PaymentListFilters, order: PaymentListOrder
) -> list[float]:
    """Return, per depth, the median of consecutive pages from there on; all depths in turn."""
    begins = await _places_at(store, filters, order)
    times: list[list[float]] = [[] for _ in DEPTHS]
    for _ in range(ROUNDS):
        for taken, (at, after) in zip(times, enumerate(begins), strict=True):
            started = time.perf_counter()
            places = await store.read(
                listing.list_positions(filters, order, LIMIT + 1, after, END_US, is_sparse=False)
            )
            await store.read(list_rows.list_rows([text for _, text in places[:LIMIT]], END_US))
            taken.append((time.perf_counter() - started) * 1000)
            begins[at] = places[LIMIT - 1]
    return [median(taken) for taken in times]


async def _places_at(
    store: Store, filters: PaymentListFilters, order: PaymentListOrder
) -> list[PaymentPosition | None]:
    """Return the positions at the depths of the list."""
    count = (await store.scan(listing.get_totals(filters, END_US))).payments
    begins: list[PaymentPosition | None] = [None]
    for before, depth in pairwise(DEPTHS):
        # one page over the whole distance
        way = int(count * depth) - int(count * before)
        op = listing.list_positions(filters, order, way, begins[-1], END_US, is_sparse=False)
        begins.append((await store.scan(op))[-1])
    return begins


async def _first_ms(store: Store, filters: PaymentListFilters) -> float:
    """Measure the first page as callers get it, with the totals."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        await store.scan(listing.get_totals(filters, END_US))
        places = await store.scan(
            listing.list_positions(
                filters, ORDERS["date"], LIMIT + 1, None, END_US, is_sparse=False
            )
        )
        await store.read(list_rows.list_rows([text for _, text in places[:LIMIT]], END_US))
        times.append((time.perf_counter() - started) * 1000)
    return median(times)


def _show(pages: dict[tuple[str, str], list[float]], firsts: dict[str, float]) -> None:
    table = Table(title=f"Pages of {LIMIT} among {PAYMENTS:,} payments, ms", title_justify="left")
    table.add_column("list")
    for depth in DEPTHS:
        table.add_column(f"at {depth:.0%}", justify="right")
    table.add_column("first, with totals", justify="right")
    for (scope, order), times in pages.items():
        table.add_row(f"{scope} by {order}", *_format_times(times))
    for name, ms in firsts.items():
        table.add_row(name, *[""] * len(DEPTHS), *_format_times([ms]))
    Console(highlight=False).print(table)


def _format_times(times: Sequence[float]) -> list[str]:
    return [f"{ms:,.1f}" for ms in times]
