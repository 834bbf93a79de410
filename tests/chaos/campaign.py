"""Payments of every kind while chains, nodes and the service itself fail.

    python -m tests.chaos.campaign [--payments N] [--seeds N] [--seed N] [--embedded] [--folder F]

Buyers pay over REST in every way there is, while a plan that follows from a seed acts: transactions
get lost, or are refused although they were taken, nodes lag, talk nonsense or say nothing, fees
rise forty times, blocks come late, not at all, or are replaced as deep as confirmations allow,
strangers submit what buyers signed, and the service dies by SIGKILL and starts again on what it
left. One order in five is an attacker's. The chains live in a process of their own and outlive it;
with --embedded they live in the service, and die with it.

After each storm every payment has ended: paid once, or dead with the proof on the chain. Balances
on the chains, the books and the journal agree to the last unit, and nothing is left open. What
attackers cost is within its bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from tests.chaos import stage as stages
from tests.chaos import storm
from tests.chaos.holes import HOLES
from tests.chaos.plan import FOES, Kill, Mood, Plan, plan
from tests.chaos.quick import QuickClock
from tests.chaos.stage import Stage
from tests.support.loaded import load

PAYMENTS, SEEDS = 300, 20
SHOWN = 5  # things that were wrong; all of them are in the run's folder
# what a service may log when nodes fail and leases are taken over; all else is a fault of its own
_ALARMS = (" ERROR ", " CRITICAL ", "Traceback", "Exception", "never retrieved", "never awaited")


def fork(work: Callable[[], Coroutine[Any, Any, None]], error: Path, output: Path) -> int:
    """Does something in a process of its own; 0 is how it ends if all is well."""
    child = os.fork()
    if child:
        return child
    status = 9
    try:
        # what nobody catches is said there
        with output.open("a") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
        uvloop.run(work())
        status = 0
    except BaseException:  # noqa: BLE001  (told to the parent)
        error.write_text(traceback.format_exc())
    finally:
        os._exit(status)


class Run:
    """One seed: forks the processes, and starts the service again whenever it was killed."""

    def __init__(
        self,
        root: Path,
        seed: int,
        payments: int,
        *,
        embedded: bool,
        hole: str = "",
        foe: Mood | None = None,
    ) -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        self._root = root
        self.plan: Plan = plan(
            seed, payments, embedded=embedded, foe=HOLES[hole].foe if hole else foe
        )
        self._stage = Stage(root, embedded, self.plan.keys, hole)
        self._kills = [*self.plan.kills]
        self._chains = 0
        self._service = 0
        self.deaths = 0

    @property
    def name(self) -> str:
        return f"{self.plan.seed}{' embedded' if self._stage.embedded else ''}"

    def fork(self) -> int:
        """Runs in a process of its own."""
        child = os.fork()
        if not child:
            try:
                (self._root / "result.json").write_text(json.dumps(self.run()))
            finally:
                os._exit(0)
        return child

    def result(self) -> dict[str, Any]:
        """What `run` told in another process; `bad` is empty if all is well."""
        path = self._root / "result.json"
        if not path.exists():
            return {"bad": ["the run itself failed"], "deaths": 0, "seconds": 0}
        return json.loads(path.read_text())

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        QuickClock.begin(self._stage.clock)
        self._stage.home.open().secrets()
        try:
            if not self._stage.embedded:
                self._chains = self._started("chains", self._chains_work)
            self._serve()
            driver = fork(
                lambda: storm.drive(self._stage, self.plan),
                self._root / "driver-error",
                self._root / "driver.log",
            )
            self._until_ended(driver)
            verdict = self._verdict()
        finally:
            for child in (self._service, self._chains):
                if child:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
        return {**verdict, "deaths": self.deaths, "seconds": round(time.monotonic() - began, 1)}

    def _chains_work(self, ready: Callable[[], None]) -> Coroutine[Any, Any, None]:
        return stages.chains(self._stage, self.plan.seed, self.plan.nodes, ready)

    def _service_work(
        self, kill: Kill | None
    ) -> Callable[[Callable[[], None]], Coroutine[Any, Any, None]]:
        return lambda ready: stages.serve(self._stage, kill, ready)

    def _started(
        self, name: str, work: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
    ) -> int:
        """A process that is ready, or dead already."""
        up, ready = os.pipe()
        child = fork(
            lambda: work(lambda: void(os.write(ready, b"."))),
            self._root / f"{name}-error",
            self._root / f"{name}.log",
        )
        os.close(ready)
        os.read(up, 1)
        os.close(up)
        return child

    def _serve(self) -> None:
        """Starts the service, with its next death ahead."""
        while True:
            kill = self._kills.pop(0) if self._kills else None
            self._service = self._started("service", self._service_work(kill))
            if os.waitpid(self._service, os.WNOHANG) == (0, 0):
                return
            # it died while it started
            self.deaths += 1

    def _until_ended(self, driver: int) -> None:
        """Returns once the driver has; starts the service again whenever it was killed."""
        while True:
            child, status = os.waitpid(-1, 0)
            if child == driver:
                return
            if child != self._service or not os.WIFSIGNALED(status):
                name = "the chains" if child == self._chains else "the service"
                if child == self._chains:
                    self._chains = 0
                else:
                    self._service = 0
                os.kill(driver, signal.SIGKILL)
                os.waitpid(driver, 0)
                (self._root / "driver-error").write_text(f"{name} ended by itself: {status}")
                return
            self.deaths += 1
            self._serve()

    def _verdict(self) -> dict[str, Any]:
        bad = [path.read_text() for path in sorted(self._root.glob("*-error"))]
        if self._service:
            os.kill(self._service, signal.SIGTERM)
            status = os.waitpid(self._service, 0)[1]
            self._service = 0
            if status:
                bad.append(f"the service did not stop in peace: {status}")
        path = self._root / "verdict.json"
        verdict = json.loads(path.read_text()) if path.exists() else {"bad": []}
        told = verdict.pop("alarms", {"may": [], "must": []})
        bad += verdict["bad"] + alarms(self._stage.log, told["may"])
        # what it died of it did not tell
        missing = unraised(self._stage.log, told["must"])
        if len(missing) > self.deaths:
            bad.append(f"alarms that were not raised: {missing}")
        return {**verdict, "bad": bad, "alarms": len(told["must"])}


def void(_: Any) -> None:
    """For the sake of what was done."""


def alarms(log: Path, may: Sequence[str] = ()) -> list[str]:
    """What the service said that it should never have to; `may` are patterns of what it may."""
    if not log.exists():
        return []
    lines = log.read_text(errors="replace").splitlines()
    return [
        line
        for line in lines
        if any(alarm in line for alarm in _ALARMS) and not any(re.search(one, line) for one in may)
    ]


def unraised(log: Path, must: Sequence[str]) -> list[str]:
    """Alarms (patterns) that the service should have raised, and did not."""
    said = log.read_text(errors="replace") if log.exists() else ""
    return [one for one in must if not re.search(one, said)]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--payments", type=int, default=PAYMENTS, help="of each seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 1 on")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--embedded", action="store_true", help="chains inside of the service")
    parser.add_argument("--hole", default="", choices=HOLES, help="to be found (tests.chaos.holes)")
    parser.add_argument("--foe", type=Mood, choices=FOES, help="attackers of one kind alone")
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    wanted = parser.parse_args()
    seeds = [wanted.seed] if wanted.seed is not None else list(range(1, wanted.seeds + 1))
    runs = [
        Run(
            wanted.folder / f"seed-{seed}",
            seed,
            wanted.payments,
            embedded=wanted.embedded,
            hole=wanted.hole,
            foe=wanted.foe,
        )
        for seed in seeds
    ]
    results = campaign(runs, wanted.jobs)
    show(results)
    return 1 if any(result["bad"] for result in results.values()) else 0


def campaign(runs: Sequence[Run], jobs: int = 1) -> dict[str, dict[str, Any]]:
    """The verdicts by name, so many at a time, each told as it comes."""
    waiting, running, results = list(runs), dict[int, Run](), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            one = waiting.pop(0)
            running[one.fork()] = one
        child, _ = os.waitpid(-1, 0)
        one = running.pop(child)
        results[one.name] = one.result()
        shown = {**results[one.name], "bad": results[one.name]["bad"][:SHOWN]}
        print(f"{one.plan.told()}\n  {json.dumps(shown)}", flush=True)
    return results


def show(results: dict[str, dict[str, Any]]) -> None:
    """Prints a table, a line for each seed."""
    table = Table(title="Chaos", title_justify="left")
    for name in (
        "seed",
        "ended",
        "honest paid",
        "lapsed",
        "gas a paid, failed payment",
        "lost to code, bound",
        "failures",
        "opened",
        "effects",
        "deaths",
        "seconds",
        "bad",
    ):
        table.add_column(name)
    for name, result in results.items():
        table.add_row(
            name,
            ", ".join(f"{name} {n}" for name, n in sorted(result.get("ended", {}).items())),
            result.get("honest", ""),
            str(len(result.get("lapsed", ()))),
            _of(result, "gas_a_paid_payment", "gas_a_failed_payment"),
            _of(result, "lost_to_code", "bound"),
            _of(result, "failures"),
            _of(result, "accounts_opened"),
            str(sum(result.get("effects", {}).values())),
            str(result["deaths"]),
            str(result["seconds"]),
            "\n".join(result["bad"][:3])[:300],
        )
    Console(highlight=False, width=200).print(table)


def _of(result: dict[str, Any], *names: str) -> str:
    """Parts of a bill."""
    return ", ".join(f"{result.get('bill', {}).get(name, 0):,}" for name in names)


if __name__ == "__main__":
    load()
    sys.exit(main())
