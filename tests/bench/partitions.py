"""Measure the price of partitions on PostgreSQL: the same calls with 36 months and without.

Both databases have the same payments, and are on one server. Calls come one at a time; in each
round both stores run the same calls, in turn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random
from statistics import median
from typing import Any, NamedTuple

from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.db.tables.tables import METADATA
from florin_server.domain.ids import find_payment_id_ms, generate_payment_id
from florin_server.domain.payments.months import get_first_id
from florin_server.domain.payments.payment import CancellationReason
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import listing, payments
from florin_server.money.payments.store.listing import PaymentListFilters, PaymentListOrder

from tests.bench.database import server_cpu_s
from tests.bench.payment import a_payment
from tests.bench.report import Figure, median_of
from tests.bench.size import sized
from tests.support import postgres
from tests.support.partitions import begin_months, get_database_month
from tests.support.store_factories import make_confirmation, make_option

MONTHS = sized(36, 4)
PER_MONTH = sized(3000, 20)
ROUNDS, COUNT, MERCHANTS, LIMIT, MANY = sized((3, 400, 20, 50, 50), (1, 5, 2, 5, 5))
_NEWEST_FIRST = PaymentListOrder(by_amount=False, descending=True)
_COPIED = ("payment", "payment_event", "payment_option")

Call = Callable[[int], Awaitable[Any]]


class Cost(NamedTuple):
    """Median milliseconds of a call, and the server's processor time for each."""

    latency_ms: float
    server_us: float


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    server = postgres.OwnServer()
    try:
        return asyncio.run(_measure(server))
    finally:
        server.end()


async def _measure(server: postgres.OwnServer) -> list[Figure]:
    plain = server.database
    await (await open_store(plain)).close()
    partitioned = DatabaseConfig(postgres.to_database_dsn(plain.dsn, "months"))
    await postgres.run_commands(
        postgres.to_database_dsn(plain.dsn, "postgres"), "CREATE DATABASE months TEMPLATE florin"
    )
    now = await get_database_month(plain)
    await begin_months(partitioned, now - MONTHS + 1)
    ids = _make_ids(now)
    for database in (plain, partitioned):
        await _fill(database, ids)
    used_s = partial(server_cpu_s, server.pid)
    rounds = [
        [await _run(database, ids, used_s) for database in (plain, partitioned)]
        for _ in range(-1, ROUNDS)
    ][1:]
    return [
        figure for name in rounds[0][0] for figure in _make_figures(name, [*map(tuple, rounds)])
    ]


def _make_figures(name: str, rounds: Sequence[tuple[dict[str, Cost], ...]]) -> list[Figure]:
    pairs = [(plain[name], months[name]) for plain, months in rounds]
    costs = [
        f"{median(cost.latency_ms for cost in both):.2f} ms and "
        f"{median(cost.server_us for cost in both):.0f} µs CPU of the server"
        for both in zip(*pairs, strict=True)
    ]
    note = f"{costs[1]} with {MONTHS} months, {costs[0]} without; {len(rounds)} rounds"
    latencies = [months.latency_ms / plain.latency_ms for plain, months in pairs]
    cpu = [months.server_us / max(plain.server_us, 1) for plain, months in pairs]
    return [
        median_of(f"partitioned_{name}_latency", latencies, "×", note, peer="plain tables"),
        median_of(f"partitioned_{name}_cpu", cpu, "×", "CPU of PostgreSQL's own processes"),
    ]


def _make_ids(now: int) -> list[str]:
    random = Random(MONTHS)
    ids = []
    for month in range(now - MONTHS + 1, now):
        first, end = (find_payment_id_ms(get_first_id(month + n)) or 0 for n in range(2))
        ids += [
            generate_payment_id(random.randrange(first, end) * 1000, random.randbytes)
            for _ in range(PER_MONTH)
        ]
    return ids


async def _fill(database: DatabaseConfig, ids: list[str]) -> None:
    """Copy one payment with its rows under all ids, for several merchants."""
    store = await open_store(database)
    payment = a_payment()
    await store.write(payments.create(payment))
    await store.write(payments.put_options([make_option(payment)]))
    await store.close()
    commands = []
    texts = ", ".join(f"'{payment_id}'" for payment_id in ids)
    for table in _COPIED:
        key = "id" if table == "payment" else "payment_id"
        columns = [f'"{column.name}"' for column in METADATA.tables[table].c]
        values = [
            "new.id"
            if name == f'"{key}"'
            else f"'mrch_' || new.n % {MERCHANTS}"
            if name == '"merchant_id"'
            else f"old.{name}"
            for name in columns
        ]
        commands.append(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM unnest(ARRAY[{texts}]) WITH ORDINALITY AS new (id, n), {table} AS old "
            f"WHERE old.{key} = '{payment.id}'"
        )
    await postgres.run_commands(database.dsn, *commands, "ANALYZE", "CHECKPOINT")


async def _run(
    database: DatabaseConfig, ids: list[str], used_s: Callable[[], float]
) -> dict[str, Cost]:
    store = await open_store(database)
    try:
        calls = await _make_calls(store, ids)
        return {name: await _time(call, used_s) for name, call in calls.items()}
    finally:
        await store.close()


async def _make_calls(store: Store, ids: list[str]) -> dict[str, Call]:
    random = Random(os.urandom(8))
    created = [a_payment() for _ in range(COUNT)]
    picked = random.choices(ids, k=COUNT)
    spread = [random.sample(ids, MANY) for _ in range(COUNT)]
    filters = [
        PaymentListFilters("prtn_bench", live=False, merchants=(f"mrch_{n % MERCHANTS}",))
        for n in range(COUNT)
    ]
    now_us = time.time_ns() // 1000
    deep = (a_payment().value, sorted(ids)[len(ids) // 2])

    def page(position: Any, number: int) -> Awaitable[Any]:
        return store.read(
            listing.list_positions(
                filters[number], _NEWEST_FIRST, LIMIT, position, now_us, is_sparse=False
            )
        )

    async def confirm(number: int) -> None:
        payment, option = created[number], make_option(created[number])
        if number % 2:
            confirmation = make_confirmation(payment)
            await store.write(payments.accept(confirmation, option, 7, ("", ""), now_us))

    async def cancel(number: int) -> None:
        if not number % 2:
            by = CancellationReason.BY_MERCHANT
            await store.write(payments.cancel(created[number].id, by, now_us))

    return {
        "create": lambda number: store.write(payments.create(created[number])),
        "options": lambda number: store.write(payments.put_options([make_option(created[number])])),
        "confirm": confirm,
        "cancel": cancel,
        "status": lambda number: store.payments.find(picked[number]),
        "many": lambda number: store.read(payments.find_many(spread[number])),
        "page": lambda number: page(None, number),
        "deep_page": lambda number: page(deep, number),
    }


async def _time(call: Call, used_s: Callable[[], float]) -> Cost:
    times, server_s = [], used_s()
    for number in range(COUNT):
        started = time.perf_counter()
        await call(number)
        times.append(time.perf_counter() - started)
    return Cost(median(times) * 1e3, (used_s() - server_s) / COUNT * 1e6)
