"""Two machines on PostgreSQL, one of which has a wrong clock, under load.

The wrong one has the leases first, and is killed with them. No payment is lost or expires early, no
lease ends later than any lease lasts by the database's clock, and none is taken away from a process
that renews it. `python -m tests.chaos.clock_skew 20 -3600 3600 86400`; with `blind` behind it the
wrong one does not follow the database's clock, which has to be found.
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

from tests.chaos.customers import Customer, Told, customers, while_they_pay, wrong
from tests.support import postgres
from tests.support.api import RestApi
from tests.support.command import ROOT, Lasting
from tests.support.desk import ORDER
from tests.support.processes import Installation, installed
from tests.support.skewed import AHEAD, BLIND
from tests.support.until import until

HOUR_S = 3600
CLOCKS_S = (-HOUR_S, HOUR_S, 24 * HOUR_S)
# as long as a lease may keep others out whose holder is dead
BLOCKED_S = 30
# the relayer's and the treasury's; they are taken one after the other
_LEASES_COUNT = 2
_LEASES = """
    SELECT name, owner, epoch, until_us / 1e6 - extract(epoch FROM clock_timestamp()) FROM lease
"""
_EXPIRED = "SELECT id FROM payment WHERE status = 'expired'"
_PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease that a process has: by name, holder and epoch; it ends in `left_s`."""

    name: str
    holder: str
    epoch: int
    left_s: float


@dataclass
class Campaign:
    """What is observed while two machines serve; `bad` is what should not have happened."""

    at: Installation
    other: Installation
    stories: int
    blind: bool = False
    told: Told = field(default_factory=Told)
    bad: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    open_ids: list[str] = field(default_factory=list)
    numbers: int = 0

    async def run(self, session: aiohttp.ClientSession, ahead_s: int) -> None:
        """Run both machines once, the wrong one first."""
        program = [sys.executable, "-m", "tests.support.skewed"]
        more = {"PYTHONPATH": str(ROOT), AHEAD: str(ahead_s)}
        if self.blind:
            more[BLIND] = "1"
        skewed = await asyncio.to_thread(self.other.lasting, "serve", program=program, **more)
        with skewed:
            before = await until(self._all_taken, patience_s=_PATIENCE_S)
            with await asyncio.to_thread(self.at.lasting, "serve"):
                await self._load(session, skewed, before)

    async def _load(
        self, session: aiohttp.ClientSession, skewed: Lasting, before: Sequence[Taken]
    ) -> None:
        right, wrong_one = self.at.rest(session), self.other.rest(session)
        for api in (right, wrong_one):
            key = f"open-{len(self.open_ids)}"
            made = await api.create({**ORDER, "referenceId": key}, key)
            self.told.created[key] = made["paymentId"]
            self.open_ids.append(made["paymentId"])
        stays, leaves = asyncio.Event(), asyncio.Event()
        here, there = [await self._people(api) for api in (right, wrong_one)]
        runs = [asyncio.create_task(one.run(stays)) for one in here]
        leaving = [asyncio.create_task(one.run(leaves)) for one in there]
        try:
            await self._stories([*here, *there], [*runs, *leaving])
            after = await self._leases()
            if {(one.name, one.epoch) for one in after} != {(o.name, o.epoch) for o in before}:
                self.bad.append(f"leases of a process that renews them went: {before}, {after}")
            leaves.set()
            await asyncio.gather(*leaving)
            skewed.process.kill()
            await asyncio.to_thread(skewed.ended)
            dead = {one.holder for one in before}

            async def taken_over() -> bool:
                return all(one.holder not in {"", *dead} for one in await self._leases())

            await until(taken_over, patience_s=_PATIENCE_S)
            await self._stories(here, runs)
            stays.set()
            await asyncio.gather(*runs)
        finally:
            for one in (*runs, *leaving):
                one.cancel()
            await asyncio.gather(*runs, *leaving, return_exceptions=True)

    async def _people(self, api: RestApi) -> list[Customer]:
        self.numbers += 1
        people = await customers(self.at, api, self.told, self.numbers, 2)
        return [one.numbered(10 * self.numbers + n) for n, one in enumerate(people)]

    async def _stories(self, people: list[Customer], runs: list[asyncio.Task[None]]) -> None:
        """Return when more payments are over, through each of the two."""
        wanted = [one.stories + self.stories for one in people]
        await while_they_pay(
            runs, lambda: all(one.stories >= n for one, n in zip(people, wanted, strict=True))
        )

    async def _all_taken(self) -> list[Taken]:
        found = await self._leases()
        is_all = len(found) == _LEASES_COUNT and all(one.holder for one in found)
        return found if is_all else []

    async def _leases(self) -> list[Taken]:
        """Look at all leases; by the database's clock none may end later than leases last."""
        rows = await postgres.rows(self.at.env["FLORIN_STORE"], _LEASES)
        found = [Taken(name, holder, epoch, float(left)) for name, holder, epoch, left in rows]
        for one in found:
            self.longest_s = max(self.longest_s, one.left_s)
            if one.left_s > BLOCKED_S:
                self.bad.append(f"{one.name} of {one.holder} ends in {one.left_s:.0f} s")
        return sorted(found, key=lambda one: one.name)


async def campaign(
    folder: Path, stories: int, clocks_s: Sequence[int], *, blind: bool = False
) -> dict[str, Any]:
    """Return counts of what happened; `bad` is what should not have."""
    async with installed(folder) as at:
        home = folder / "elsewhere" / "home"
        await asyncio.to_thread(shutil.copytree, at.home, home)
        run = Campaign(at, replace(at, home=home), stories, blind)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            for ahead_s in clocks_s:
                await run.run(session, ahead_s)
            # whatever is left is finished first
            with await asyncio.to_thread(at.lasting, "serve"):
                bad = [*run.bad, *await wrong(at, session, run.told)]
        expired = await postgres.rows(at.env["FLORIN_STORE"], _EXPIRED)
        bad += [f"{one} expired early" for (one,) in expired]
        for one in run.open_ids:
            if (status := await at.status(one)) != "requires_action":
                bad.append(f"{one}, which nobody paid, is {status}")
    counts = {"confirmed": len(run.told.confirmed), "refunds": len(run.told.refunds)}
    return {**counts, "longest_s": round(run.longest_s, 1), "bad": bad}


def main() -> None:
    arguments = [one for one in sys.argv[1:] if one != "blind"]
    stories, *clocks_s = map(int, arguments or ("20", *map(str, CLOCKS_S)))
    blind = "blind" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(campaign(Path(folder), stories, clocks_s, blind=blind))
    print(found)
    sys.exit(bool(found["bad"]))


if __name__ == "__main__":
    main()
