"""Two processes of one service on PostgreSQL, one of which is killed again and again under load.

In the end what customers were told is compared with the store, the books and the chain: nothing is
lost, nothing was done twice, and every stream reached the final version. The comparison itself is
tried with what nobody was told. `python -m tests.chaos.process_kills 200 [seed]`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from tests.chaos.customers import Customer, Told, customers, while_they_pay, wrong
from tests.support.command import ROOT
from tests.support.processes import alive, children, installed, kill
from tests.support.until import until

# one dies in all kinds of moments, but not faster than processes start
_STORIES_A_KILL = 3


# as if a service had done otherwise; each has to be noticed
LIES: dict[str, Callable[[Told], Any]] = {
    "a payment is lost": lambda told: told.created.update(lost="pay_lost"),
    "a payment is made twice": lambda told: told.created.popitem(),
    "a confirmation is lost": lambda told: told.confirmed.update(
        dict.fromkeys(told.cancelled, "0x" + "00" * 20)
    ),
    "a cancelled payment is paid": lambda told: told.cancelled.update(told.confirmed),
    "a buyer pays twice": lambda told: told.confirmed.popitem(),
    "a refund is lost": lambda told: told.refunds.update(pay_1="rfnd_1"),
    "a refund is made twice": lambda told: told.refunds.popitem(),
    "a stream goes back": lambda told: next(iter(told.versions.values())).append(0),
    "a stream misses the end": lambda told: told.final.popitem(),
}


async def campaign(folder: Path, kills: int, seed: int = 7) -> dict[str, Any]:
    """Counts of what happened; `bad` is what should not have, `unnoticed` are lies nobody saw."""
    chance, told, ends = random.Random(seed), Told(), asyncio.Event()
    async with installed(folder) as at:
        program = [sys.executable, "-m", "tests.support.hurried"]
        more = {"PYTHONPATH": str(ROOT)}
        served = await asyncio.to_thread(
            at.lasting, "serve", "--workers", "2", program=program, **more
        )
        with served:
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                people = await customers(at, at.rest(session), told, seed)
                runs = [asyncio.create_task(one.run(ends)) for one in people]
                for _ in range(kills):
                    await _stories(people, runs)
                    # one that has only just begun to start, too
                    pids = await until(lambda: children(served.process.pid), patience_s=60)
                    kill(killed := chance.choice(pids))
                    await until(lambda pid=killed: not alive(pid), patience_s=60)
                ends.set()
                await asyncio.gather(*runs)
                bad = await wrong(at, session, told)
                unnoticed = [
                    name
                    for name, lie in LIES.items()
                    if not await wrong(at, session, _told_otherwise(told, lie))
                ]
    stories = sum(one.stories for one in people)
    counts = {"kills": kills, "stories": stories, "disturbed": dict(told.disturbed)}
    return {**counts, "bad": bad, "unnoticed": unnoticed}


def _told_otherwise(told: Told, lie: Callable[[Told], Any]) -> Told:
    other = deepcopy(told)
    lie(other)
    return other


async def _stories(people: list[Customer], runs: list[asyncio.Task[None]]) -> None:
    """Returns when a few more payments are over; raises what a customer met."""
    wanted = sum(one.stories for one in people) + _STORIES_A_KILL
    await while_they_pay(runs, lambda: sum(one.stories for one in people) >= wanted)


def main() -> None:
    kills, seed = [*sys.argv[1:], *("200", "7")[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(campaign(Path(folder), int(kills), int(seed)))
    print(found)
    sys.exit(bool(found["bad"] or found["unnoticed"]))


if __name__ == "__main__":
    main()
