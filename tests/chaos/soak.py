"""Customers go on for a while: what two processes use stays level, and nothing is lost.

Besides customers somebody reads lists and pages. Memory, open files and tasks are read from the
metrics of each process; the first third of the time warms them up, and the second is compared
with the last. `python -m tests.chaos.soak 600 [seed]`.
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

from tests.chaos.customers import CUSTOMERS, Told, customers, wrong
from tests.support.processes import Installation, installed

# how often metrics are read in all
LOOKS = 60
# what each may be in the last third, by what it was in the second: it moves with what is under way
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
    """Counts of what was done; `levels` has each gauge of each process, second and last third.

    `bad` is what differs from what customers were told, `grown` what did not stay level.
    """
    told, ends = Told(), asyncio.Event()
    async with installed(folder) as at:
        served = await asyncio.to_thread(
            at.lasting, "serve", "--workers", "2", FLORIN_METRICS_PORT="0"
        )
        with served:
            urls = _METRICS.findall(served.out)
            async with aiohttp.ClientSession() as session:
                api = at.rest(session)
                people = await customers(at, api, told, seed, count)
                runs = [asyncio.create_task(one.run(ends)) for one in people]
                runs.append(asyncio.create_task(_reads(at, session, api.base, told, seed, ends)))
                samples = await _samples(session, urls, seconds, runs)
                ends.set()
                await asyncio.gather(*runs)
                bad = await wrong(at, session, told)
    stories = sum(one.stories for one in people)
    disturbed = dict(told.disturbed)
    levels = [_levels(found) for found in samples.values()]
    grown = [
        f"{name} of process {number}: {second:,.0f}, then {last:,.0f}"
        for number, gauges in enumerate(levels)
        for name, (second, last) in gauges.items()
        if last > BOUNDS[name](second)
    ]
    counts = {"stories": stories, "disturbed": disturbed, "levels": levels}
    return {**counts, "bad": bad, "grown": grown}


async def _samples(
    session: aiohttp.ClientSession,
    urls: Sequence[str],
    seconds: float,
    runs: Sequence[asyncio.Task[None]],
) -> dict[str, list[Sample]]:
    """What each process tells, at even distances; raises what a customer met."""
    found: dict[str, list[Sample]] = {url: [] for url in urls}
    for _ in range(LOOKS):
        done, _ = await asyncio.wait(
            runs, timeout=seconds / LOOKS, return_when=asyncio.FIRST_COMPLETED
        )
        for one in done:
            one.result()
        for url in urls:
            async with session.get(url) as answer:
                text = await answer.text()
            families = text_string_to_metric_families(text)
            read = {one.name: one.value for family in families for one in family.samples}
            found[url].append({name: read[name] for name in BOUNDS})
    return found


def _levels(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """The medians of the second and of the last third."""
    third = len(samples) // 3
    parts = samples[third : 2 * third], samples[-third:]
    second, last = ({n: median(s[n] for s in part) for n in BOUNDS} for part in parts)
    return {name: (second[name], last[name]) for name in BOUNDS}


async def _reads(
    at: Installation,
    session: aiohttp.ClientSession,
    base: str,
    told: Told,
    seed: int,
    ends: asyncio.Event,
) -> None:
    """Reads lists, payments and their pages, one after the other."""
    chance = random.Random(seed)
    headers = {
        "Api-Key": at.accounts["FLORIN_PARTNER_KEY"],
        "Merchant-Id": at.accounts["FLORIN_MERCHANT_ID"],
    }
    while not ends.is_set():
        paths = ["/v1/merchants/payments", "/v1/payments"]
        if told.created:
            payment_id = chance.choice(list(told.created.values()))
            paths += [f"/v1/payments/{payment_id}", f"/{payment_id}"]
        async with session.get(base + chance.choice(paths), headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        await asyncio.sleep(_PAUSE_S)


def main() -> None:
    seconds, seed = [*sys.argv[1:], *("600", "7")[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(soak(Path(folder), float(seconds), int(seed)))
    print(found)
    sys.exit(bool(found["bad"] or found["grown"]))


if __name__ == "__main__":
    main()
