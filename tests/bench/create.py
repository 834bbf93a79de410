"""Measure creation of payments over REST, against the bare store on the same disk.

A plain SQLModel session is measured too; it commits the same rows in one create after another.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

from florin_server.accounts.store import keys, merchants
from florin_server.accounts.store.credential_checks import run_if_active
from florin_server.domain.accounts.account import (
    SCOPES,
    ApiKey,
    CredentialStatus,
    Partner,
)
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.payments.payment import Merchant
from florin_server.idempotency.store.responses import IdempotencyClaim, run_once
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import payments

from tests.bench import load, session
from tests.bench.florin import Florin
from tests.bench.load import RestJob, Result
from tests.bench.payment import RECEIPT, a_payment
from tests.bench.report import Figure, median_of
from tests.bench.setup import create_request
from tests.bench.size import sized

ROUNDS, COUNT, BARE_COUNT, PLAIN_COUNT = sized((3, 2000, 6000, 1000), (1, 20, 20, 20))
CONCURRENCY = 64
_PARTNER = Partner("prtn_bench", "Bench", "2026-02-18", "active", 1)
_MERCHANT = Merchant(
    "mrch_bench", _PARTNER.id, "Bench", "a@b.example", None, "active", False, 1, None
)
_KEY = ApiKey(
    "abcdefgh", ApiKeyKind.PARTNER, False, _PARTNER.id, b"k" * 32, "1234", SCOPES, None, 1
)
_STANDING = CredentialStatus(_KEY.key_id, None, _MERCHANT.id, requires_active_merchant=True)


def measure(florin: Florin, pool: ProcessPoolExecutor) -> list[Figure]:
    rest: list[Result] = []
    bare: list[Result] = []
    looked: list[Result] = []
    plain: list[Result] = []
    cpu_us: list[float] = []
    for turn in range(-1, ROUNDS):
        # the first round warms up
        requests = tuple(create_request(florin, f"bench-{turn}-{n}") for n in range(COUNT))
        before = florin.cpu_s()
        result = load.run(pool, RestJob(florin.http, requests, CONCURRENCY, expect=b"paymentId"))
        cpu_us.append(florin.used_s(before) / COUNT * 1e6)
        rest.append(result)
        for results, standing in ((bare, None), (looked, _STANDING)):
            future = pool.submit(bare_store, BARE_COUNT, standing)
            results.append(future.result(load.PATIENCE_S))
        plain.append(pool.submit(session.creates, PLAIN_COUNT).result(load.PATIENCE_S))
    stood = _standing(looked[1:], bare[1:])
    return [*_make_figures(rest[1:], bare[1:], plain[1:], median(cpu_us[1:])), stood]


def _standing(looked: list[Result], bare: list[Result]) -> Figure:
    # a small difference of two values, so take the quietest round of each
    looked_us, unlooked_us = (min(b.cpu_s for b in of) / BARE_COUNT * 1e6 for of in (looked, bare))
    return Figure(
        "create_standing_us",
        looked_us - unlooked_us,
        "µs",
        f"CPU for looking again at the caller in the transaction: {looked_us:.0f} with it and "
        f"{unlooked_us:.0f} µs without, the bare store, the quietest of {ROUNDS} rounds",
    )


def _make_figures(
    rest: list[Result], bare: list[Result], plain: list[Result], server_us: float
) -> list[Figure]:
    store_rate, plain_rate = (median(result.rate for result in side) for side in (bare, plain))
    store_us = median(result.cpu_s for result in bare) / BARE_COUNT * 1e6
    plain_us = median(result.cpu_s for result in plain) / PLAIN_COUNT * 1e6
    note = (
        f"{CONCURRENCY} connections, idempotency keys, p50 "
        f"{median(r.quantile_ms(50) for r in rest):.1f} p99 "
        f"{median(r.quantile_ms(99) for r in rest):.1f} ms"
    )
    against = (
        f"by wall clock; by CPU {store_us / server_us:.2f}; bare store {store_rate:,.0f}/s, "
        f"{store_us:.0f} µs CPU, the same rows in groups, {CONCURRENCY} at once"
    )
    beside = (
        f"by wall clock; by CPU {plain_us / store_us:.2f}; a session of SQLModel "
        f"{plain_rate:,.0f}/s, {plain_us:.0f} µs CPU, one create after the other"
    )
    by_store = [r.rate / b.rate for r, b in zip(rest, bare, strict=True)]
    by_session = [b.rate / p.rate for b, p in zip(bare, plain, strict=True)]
    rates = [result.rate for result in rest]
    return [
        median_of("rest_create_per_s", rates, "/s", note, cpu_us=server_us),
        median_of("rest_create_vs_store", by_store, "×", against, at_least=0.4, peer="bare store"),
        median_of("store_create_vs_session", by_session, "×", beside, peer="SQLModel session"),
    ]


def bare_store(count: int, standing: CredentialStatus | None = None) -> Result:
    """Create payments with only the store in the process."""
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        return load.timed(_create(Path(folder) / "store.db", count, standing))


async def _create(path: Path, count: int, standing: CredentialStatus | None) -> Result:
    store = await open_store(path)
    await store.write(merchants.put_partner(_PARTNER))
    await store.write(merchants.put_merchant(_MERCHANT))
    await store.write(keys.put_key(_KEY))
    result = Result()
    now_us = time.time_ns() // 1000
    upcoming = iter([(a_payment(), _claim(now_us, n)) for n in range(count)])

    async def worker() -> None:
        for payment, claim in upcoming:
            request = time.perf_counter()
            work = run_once(claim, payments.create(payment), lambda _: RECEIPT)
            await store.write(run_if_active(standing, work))
            result.latencies_s.append(time.perf_counter() - request)
            result.answered += 1

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    result.seconds = time.perf_counter() - started
    await store.close()
    return result


def _claim(now_us: int, number: int) -> IdempotencyClaim:
    return IdempotencyClaim(
        scope="prtn_bench/mrch_bench/test",
        key=f"bench-{number}",
        fingerprint=os.urandom(32),
        now_us=now_us,
        ttl_us=7 * 86_400 * 1_000_000,
    )
