"""Let customers pay for a while: two processes use constant resources, and nothing is lost.

A reader also fetches lists and pages. Memory, open files and tasks come from the metrics of each
process. The first third of the time warms them up; the second is compared with the last. `python -m
tests.chaos.soak 600 [seed]`.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.customers import CUSTOMERS, Acknowledgements, create_customers, find_differences
from tests.support.processes import ProcessInstallation, open_installation

# total number of metric reads
SAMPLES = 60
# the bound for the last third, from the value in the second; pending work moves it
BOUNDS: Mapping[str, Callable[[float], float]] = {
    "process_resident_memory_bytes": lambda before: 1.1 * before,
    "process_open_fds": lambda before: before + 16,
    "florin_tasks": lambda before: before + 32,
}
_METRICS = re.compile(r"http://127\.0\.0\.1:\d+/metrics")
_PAUSE_S = 0.05

Sample = Mapping[str, float]


async def soak(
    folder: Path, seconds: float, seed: int = 7, count: int = CUSTOMERS
) -> dict[str, Any]:
    """Return counts; `levels` has each process's gauges in the second and last third.

    `bad` lists differences from the customers' answers, `grown` the gauges that grew.
    """
    acknowledged, ends = Acknowledgements(), asyncio.Event()
    async with open_installation(folder) as installation:
        command = await asyncio.to_thread(
            installation.start_lasting, "serve", "--workers", "2", FLORIN_METRICS_PORT="0"
        )
        with command:
            urls = _METRICS.findall(command.out)
            async with aiohttp.ClientSession() as session:
                api = installation.rest(session)
                people = await create_customers(installation, api, acknowledged, seed, count)
                runs = [asyncio.create_task(customer.run(ends)) for customer in people]
                runs.append(
                    asyncio.create_task(
                        _read_pages(installation, session, api.base, acknowledged, seed, ends)
                    )
                )
                samples = await _collect_samples(session, urls, seconds, runs)
                ends.set()
                await asyncio.gather(*runs)
                bad = await find_differences(installation, session, acknowledged)
    payment_runs = sum(customer.payment_runs for customer in people)
    disturbed = dict(acknowledged.disturbed)
    levels = [_compute_levels(sample) for sample in samples.values()]
    grown = [
        f"{name} of process {number}: {second:,.0f}, then {last:,.0f}"
        for number, gauges in enumerate(levels)
        for name, (second, last) in gauges.items()
        if last > BOUNDS[name](second)
    ]
    counts = {"payment_runs": payment_runs, "disturbed": disturbed, "levels": levels}
    return {**counts, "bad": bad, "grown": grown}


async def _collect_samples(
    session: aiohttp.ClientSession,
    urls: Sequence[str],
    seconds: float,
    runs: Sequence[asyncio.Task[None]],
) -> dict[str, list[Sample]]:
    """Read the metrics of each process at even intervals; raise what a customer met."""
    results: dict[str, list[Sample]] = {url: [] for url in urls}
    for _ in range(SAMPLES):
        done, _ = await asyncio.wait(
            runs, timeout=seconds / SAMPLES, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()
        for url in urls:
            async with session.get(url) as answer:
                text = await answer.text()
            families = text_string_to_metric_families(text)
            read = {sample.name: sample.value for family in families for sample in family.samples}
            results[url].append({name: read[name] for name in BOUNDS})
    return results


def _compute_levels(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """Return the medians of the second and of the last third."""
    third = len(samples) // 3
    parts = samples[third : 2 * third], samples[-third:]
    second, last = ({n: median(s[n] for s in part) for n in BOUNDS} for part in parts)
    return {name: (second[name], last[name]) for name in BOUNDS}


async def _read_pages(
    installation: ProcessInstallation,
    session: aiohttp.ClientSession,
    base: str,
    acknowledged: Acknowledgements,
    seed: int,
    ends: asyncio.Event,
) -> None:
    """Read lists, payments and their pages, one after the other."""
    rng = random.Random(seed)
    headers = {
        "Api-Key": installation.accounts["FLORIN_PARTNER_KEY"],
        "Merchant-Id": installation.accounts["FLORIN_MERCHANT_ID"],
    }
    while not ends.is_set():
        paths = ["/v1/merchants/payments", "/v1/payments"]
        if acknowledged.created:
            payment_id = rng.choice(list(acknowledged.created.values()))
            paths += [f"/v1/payments/{payment_id}", f"/{payment_id}"]
        async with session.get(base + rng.choice(paths), headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        await asyncio.sleep(_PAUSE_S)


def main() -> None:
    seconds, seed = [*sys.argv[1:], *("600", "7")[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        results = uvloop.run(soak(Path(folder), float(seconds), int(seed)))
    print(results)
    sys.exit(bool(results["bad"] or results["grown"]))


if __name__ == "__main__":
    main()
