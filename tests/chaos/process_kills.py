"""Kill one of a service's two processes on PostgreSQL again and again under load.

Afterwards the customers' answers are compared with the store, the books and the chain. Nothing is
lost, nothing was done twice, and every stream reached the final version. The comparison itself is
tested with false answers. `python -m tests.chaos.process_kills 200 [seed]`.
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

from tests.chaos.customers import (
    Acknowledgements,
    Customer,
    create_customers,
    find_differences,
    wait_while_paying,
)
from tests.support.command import ROOT
from tests.support.processes import is_alive, kill_process, list_children, open_installation
from tests.support.until import wait_until

# kills hit all kinds of moments, but not faster than processes start
_STORIES_PER_KILL = 3


# as if the service had acted otherwise; the comparison must notice each
LIES: dict[str, Callable[[Acknowledgements], Any]] = {
    "a payment is lost": lambda acknowledged: acknowledged.created.update(lost="pay_lost"),
    "a payment is made twice": lambda acknowledged: acknowledged.created.popitem(),
    "a confirmation is lost": lambda acknowledged: acknowledged.confirmed.update(
        dict.fromkeys(acknowledged.cancelled, "0x" + "00" * 20)
    ),
    "a cancelled payment is paid": lambda acknowledged: acknowledged.cancelled.update(
        acknowledged.confirmed
    ),
    "a buyer pays twice": lambda acknowledged: acknowledged.confirmed.popitem(),
    "a refund is lost": lambda acknowledged: acknowledged.refunds.update(pay_1="rfnd_1"),
    "a refund is made twice": lambda acknowledged: acknowledged.refunds.popitem(),
    "a stream goes back": lambda acknowledged: next(iter(acknowledged.versions.values())).append(0),
    "a stream misses the end": lambda acknowledged: acknowledged.final.popitem(),
}


async def campaign(folder: Path, kills: int, seed: int = 7) -> dict[str, Any]:
    """Return counts of what happened; `bad` lists violations, `unnoticed` the undetected lies."""
    rng, acknowledged, ends = random.Random(seed), Acknowledgements(), asyncio.Event()
    async with open_installation(folder) as installation:
        program = [sys.executable, "-m", "tests.support.fast_restarts"]
        env = {"PYTHONPATH": str(ROOT)}
        command = await asyncio.to_thread(
            installation.start_lasting, "serve", "--workers", "2", program=program, **env
        )
        with command:
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                people = await create_customers(
                    installation, installation.rest(session), acknowledged, seed
                )
                runs = [asyncio.create_task(customer.run(ends)) for customer in people]
                for _ in range(kills):
                    await _wait_for_stories(people, runs)
                    # this includes a process that has only just started
                    pids = await wait_until(
                        lambda: list_children(command.process.pid), patience_s=240
                    )
                    kill_process(killed := rng.choice(pids))
                    await wait_until(lambda pid=killed: not is_alive(pid), patience_s=240)
                ends.set()
                await asyncio.gather(*runs)
                bad = await find_differences(installation, session, acknowledged)
                unnoticed = [
                    name
                    for name, lie in LIES.items()
                    if not await find_differences(
                        installation, session, _apply_lie(acknowledged, lie)
                    )
                ]
    payment_runs = sum(customer.payment_runs for customer in people)
    counts = {
        "kills": kills,
        "payment_runs": payment_runs,
        "disturbed": dict(acknowledged.disturbed),
    }
    return {**counts, "bad": bad, "unnoticed": unnoticed}


def _apply_lie(
    acknowledged: Acknowledgements, lie: Callable[[Acknowledgements], Any]
) -> Acknowledgements:
    changed = deepcopy(acknowledged)
    lie(changed)
    return changed


async def _wait_for_stories(people: list[Customer], runs: list[asyncio.Task[None]]) -> None:
    """Return when a few more payments have ended; raise what a customer met."""
    expected = sum(customer.payment_runs for customer in people) + _STORIES_PER_KILL
    await wait_while_paying(
        runs, lambda: sum(customer.payment_runs for customer in people) >= expected
    )


def main() -> None:
    kills, seed = [*sys.argv[1:], *("200", "7")[len(sys.argv) - 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        results = uvloop.run(campaign(Path(folder), int(kills), int(seed)))
    print(results)
    sys.exit(bool(results["bad"] or results["unnoticed"]))


if __name__ == "__main__":
    main()
