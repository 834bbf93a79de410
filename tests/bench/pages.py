"""Pages of a list of a million payments: how long they take, deep ones too, and the console's."""

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

from florin_server.domain.payments.payment import Status
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.store import Store
from florin_server.store.engine.where import Database
from florin_server.store.payments import listed, listing
from florin_server.store.payments.listing import Filters, Order, Position
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
_ALL = Filters(PARTNER, live=False)
SCOPES = {"partner": _ALL, "merchant": replace(_ALL, merchants=MERCHANTS[:1])}
ORDERS = {"date": Order(False, True), "amount": Order(True, True)}


def measure(pool: ProcessPoolExecutor) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        path = Path(folder) / "florin.db"
        started = time.perf_counter()
        history.write(path, PAYMENTS)
        made_s = time.perf_counter() - started
        told = f"{PAYMENTS:,} payments written in {made_s:.0f} s; pages of {LIMIT}"
        figures = asyncio.run(measured(path, "page", told))
    with florin() as running:
        return [*figures, *console.measure(running, pool)]


async def measured(where: Path | Database, name: str, told: str) -> list[Figure]:
    """Figures of a store that `history` filled, their names beginning with `name`."""
    store = await open_store(where)
    try:
        pages = {
            (scope, order): await _pages_ms(store, SCOPES[scope], ORDERS[order])
            for scope in SCOPES
            for order in ORDERS
        }
        firsts = {scope: await _first_ms(store, SCOPES[scope]) for scope in SCOPES}
        rare = await _first_ms(store, replace(_ALL, statuses=(Status(RARE),)))
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
            f"{told}; the worst of partner and merchant, by date and by amount: the page behind "
            f"{DEPTHS[-1]:.0%} of the list against its first one",
            at_most=2,
        ),
        Figure(f"{name}_ms", slowest, "ms", f"{told}; the slowest median, rows and all, no totals"),
        Figure(f"{name}_with_totals_ms", firsts["partner"], "ms", f"{told}; first page and totals"),
        Figure(f"{name}_rare_status_ms", rare, "ms", f"{told}; first page and totals of {RARE}"),
    ]


async def _pages_ms(store: Store, filters: Filters, order: Order) -> list[float]:
    """For each depth the median of pages that follow each other from there on; all in turn."""
    begins = await _places_at(store, filters, order)
    times: list[list[float]] = [[] for _ in DEPTHS]
    for _ in range(ROUNDS):
        for taken, (at, after) in zip(times, enumerate(begins), strict=True):
            started = time.perf_counter()
            places = await store.read(
                listing.page(filters, order, LIMIT + 1, after, END_US, few=False)
            )
            await store.read(listed.listed([one for _, one in places[:LIMIT]], END_US))
            taken.append((time.perf_counter() - started) * 1000)
            begins[at] = places[LIMIT - 1]
    return [median(taken) for taken in times]


async def _places_at(store: Store, filters: Filters, order: Order) -> list[Position | None]:
    """The places behind parts of the list."""
    count = (await store.survey(listing.totals(filters, END_US))).payments
    begins: list[Position | None] = [None]
    for before, depth in pairwise(DEPTHS):
        # one page that is as long as the way
        way = int(count * depth) - int(count * before)
        op = listing.page(filters, order, way, begins[-1], END_US, few=False)
        begins.append((await store.survey(op))[-1])
    return begins


async def _first_ms(store: Store, filters: Filters) -> float:
    """The first page as a caller gets it, with the totals."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        await store.survey(listing.totals(filters, END_US))
        places = await store.survey(
            listing.page(filters, ORDERS["date"], LIMIT + 1, None, END_US, few=False)
        )
        await store.read(listed.listed([one for _, one in places[:LIMIT]], END_US))
        times.append((time.perf_counter() - started) * 1000)
    return median(times)


def _show(pages: dict[tuple[str, str], list[float]], firsts: dict[str, float]) -> None:
    table = Table(title=f"Pages of {LIMIT} among {PAYMENTS:,} payments, ms", title_justify="left")
    table.add_column("list")
    for depth in DEPTHS:
        table.add_column(f"at {depth:.0%}", justify="right")
    table.add_column("first, with totals", justify="right")
    for (scope, order), times in pages.items():
        table.add_row(f"{scope} by {order}", *_told(times))
    for name, ms in firsts.items():
        table.add_row(name, *[""] * len(DEPTHS), *_told([ms]))
    Console(highlight=False).print(table)


def _told(times: Sequence[float]) -> list[str]:
    return [f"{ms:,.1f}" for ms in times]
