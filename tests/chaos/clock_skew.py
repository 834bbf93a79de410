"""Run two machines on PostgreSQL under load, one of them with a wrong clock.

The machine with the wrong clock has the leases first, and is killed with them. No payment is lost
or expires early. By the database's clock no lease ends later than any lease lasts. No process loses
a lease that it renews. `python -m tests.chaos.clock_skew 20 -3600 3600 86400`; with `blind` at the
end the wrong machine does not follow the database's clock, and the campaign must detect it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
from tests.support import postgres
from tests.support.api import RestApi
from tests.support.command import ROOT, RunningCommand
from tests.support.processes import ProcessInstallation, open_installation
from tests.support.service_harness import ORDER
from tests.support.skewed_clock import AHEAD_VARIABLE, BLIND_VARIABLE
from tests.support.until import wait_until

HOUR_S = 3600
CLOCKS_S = (-HOUR_S, HOUR_S, 24 * HOUR_S)
# the longest time for which a dead holder's lease can block others
BLOCKED_S = 30
# the relayer's and the treasury's; they are taken one after the other
_LEASES_COUNT = 2
_LEASES = """
    SELECT name, owner, epoch, until_us / 1e6 - extract(epoch FROM clock_timestamp()) FROM lease
"""
_EXPIRED = "SELECT id FROM payment WHERE status = 'expired'"
_PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease of a process: name, holder and epoch; it ends in `left_s`."""

    name: str
    holder: str
    epoch: int
    left_s: float


@dataclass
class Campaign:
    """Observations of two serving machines; `bad` lists the violations."""

    installation: ProcessInstallation
    skewed_installation: ProcessInstallation
    payment_runs: int
    blind: bool = False
    acknowledged: Acknowledgements = field(default_factory=Acknowledgements)
    bad: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    open_ids: list[str] = field(default_factory=list)
    group_count: int = 0

    async def run(self, session: aiohttp.ClientSession, ahead_s: int) -> None:
        """Run both machines once, the wrong one first."""
        program = [sys.executable, "-m", "tests.support.skewed_clock"]
        env = {"PYTHONPATH": str(ROOT), AHEAD_VARIABLE: str(ahead_s)}
        if self.blind:
            env[BLIND_VARIABLE] = "1"
        skewed = await asyncio.to_thread(
            self.skewed_installation.start_lasting, "serve", program=program, **env
        )
        with skewed:
            before = await wait_until(self._find_all_held, patience_s=_PATIENCE_S)
            with await asyncio.to_thread(self.installation.start_lasting, "serve"):
                await self._run_under_load(session, skewed, before)

    async def _run_under_load(
        self, session: aiohttp.ClientSession, skewed: RunningCommand, before: Sequence[HeldLease]
    ) -> None:
        right_api, skewed_api = (
            self.installation.rest(session),
            self.skewed_installation.rest(session),
        )
        for api in (right_api, skewed_api):
            key = f"open-{len(self.open_ids)}"
            created = await api.create({**ORDER, "referenceId": key}, key)
            self.acknowledged.created[key] = created["paymentId"]
            self.open_ids.append(created["paymentId"])
        stays, leaves = asyncio.Event(), asyncio.Event()
        right_customers, skewed_customers = [
            await self._create_customers(api) for api in (right_api, skewed_api)
        ]
        runs = [asyncio.create_task(customer.run(stays)) for customer in right_customers]
        leaving = [asyncio.create_task(customer.run(leaves)) for customer in skewed_customers]
        try:
            await self._wait_for_stories([*right_customers, *skewed_customers], [*runs, *leaving])
            after = await self._read_leases()
            if {(lease.name, lease.epoch) for lease in after} != {
                (lease.name, lease.epoch) for lease in before
            }:
                self.bad.append(f"leases of a process that renews them went: {before}, {after}")
            leaves.set()
            await asyncio.gather(*leaving)
            skewed.process.kill()
            await asyncio.to_thread(skewed.wait_ended)
            dead = {lease.holder for lease in before}

            async def are_taken_over() -> bool:
                return all(lease.holder not in {"", *dead} for lease in await self._read_leases())

            await wait_until(are_taken_over, patience_s=_PATIENCE_S)
            await self._wait_for_stories(right_customers, runs)
            stays.set()
            await asyncio.gather(*runs)
        finally:
            for task in (*runs, *leaving):
                task.cancel()
            await asyncio.gather(*runs, *leaving, return_exceptions=True)

    async def _create_customers(self, api: RestApi) -> list[Customer]:
        self.group_count += 1
        people = await create_customers(
            self.installation, api, self.acknowledged, self.group_count, 2
        )
        return [
            customer.with_number(10 * self.group_count + n) for n, customer in enumerate(people)
        ]

    async def _wait_for_stories(
        self, people: list[Customer], runs: list[asyncio.Task[None]]
    ) -> None:
        """Return when more payments have ended, through both machines."""
        expected = [customer.payment_runs + self.payment_runs for customer in people]
        await wait_while_paying(
            runs,
            lambda: all(
                customer.payment_runs >= n for customer, n in zip(people, expected, strict=True)
            ),
        )

    async def _find_all_held(self) -> list[HeldLease]:
        results = await self._read_leases()
        is_all = len(results) == _LEASES_COUNT and all(lease.holder for lease in results)
        return results if is_all else []

    async def _read_leases(self) -> list[HeldLease]:
        """Read all leases; by the database's clock none can end later than leases last."""
        rows = await postgres.list_rows(self.installation.env["FLORIN_STORE"], _LEASES)
        results = [
            HeldLease(name, holder, epoch, float(left)) for name, holder, epoch, left in rows
        ]
        for lease in results:
            self.longest_s = max(self.longest_s, lease.left_s)
            if lease.left_s > BLOCKED_S:
                self.bad.append(f"{lease.name} of {lease.holder} ends in {lease.left_s:.0f} s")
        return sorted(results, key=lambda lease: lease.name)


async def campaign(
    folder: Path, payment_runs: int, clocks_s: Sequence[int], *, blind: bool = False
) -> dict[str, Any]:
    """Return counts of what happened; `bad` lists the violations."""
    async with open_installation(folder) as installation:
        home = folder / "elsewhere" / "home"
        await asyncio.to_thread(shutil.copytree, installation.home, home)
        run = Campaign(installation, replace(installation, home=home), payment_runs, blind)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            for ahead_s in clocks_s:
                await run.run(session, ahead_s)
            # the rest is finished first
            with await asyncio.to_thread(installation.start_lasting, "serve"):
                bad = [*run.bad, *await find_differences(installation, session, run.acknowledged)]
        expired = await postgres.list_rows(installation.env["FLORIN_STORE"], _EXPIRED)
        bad += [f"{payment_id} expired early" for (payment_id,) in expired]
        for open_id in run.open_ids:
            if (status := await installation.status(open_id)) != "requires_action":
                bad.append(f"{open_id}, which was never paid, is {status}")
    counts = {
        "confirmed": len(run.acknowledged.confirmed),
        "refunds": len(run.acknowledged.refunds),
    }
    return {**counts, "longest_s": round(run.longest_s, 1), "bad": bad}


def main() -> None:
    arguments = [text for text in sys.argv[1:] if text != "blind"]
    payment_runs, *clocks_s = map(int, arguments or ("20", *map(str, CLOCKS_S)))
    blind = "blind" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        results = uvloop.run(campaign(Path(folder), payment_runs, clocks_s, blind=blind))
    print(results)
    sys.exit(bool(results["bad"]))


if __name__ == "__main__":
    main()
