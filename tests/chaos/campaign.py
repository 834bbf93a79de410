"""Make payments of every kind while chains, nodes and the service itself fail.

    python -m tests.chaos.campaign [--payments N] [--seeds N] [--seed N] [--embedded] [--folder F]
        [--engine sqlite] [--engine postgres]

Buyers pay over REST in every way, and some only send to an address or sign for x402. A plan derived
from a seed causes failures. Transactions get lost, or are refused although they were accepted.
Nodes lag, return nonsense or do not answer. Fees rise forty times. Blocks come late, not at all, or
are replaced as deep as confirmations allow. Strangers submit what buyers signed. The service dies
by SIGKILL and restarts on what it left. One order in five is an attacker's. The chains run in a
separate process and outlive the service; with --embedded they run in the service and die with it.

After each run every payment has ended: paid once, or dead with the proof on the chain. Balances on
the chains, the books and the journal agree to the last unit, and nothing is left open. The
attackers' cost is within its bounds.
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

from tests.chaos import chaos_run
from tests.chaos import chaos_service as stages
from tests.chaos.chaos_service import ChaosEnvironment
from tests.chaos.fast_clock import QuickClock
from tests.chaos.plan import ADDRESS_KINDS, ATTACKERS, BuyerBehavior, Kill, Plan, plan
from tests.chaos.planted_bugs import PLANTED_BUGS
from tests.support import postgres
from tests.support.preload import load_all

PAYMENTS, SEEDS = 300, 20
SHOWN = 5  # findings shown; all of them are in the run's folder
# log lines that failing nodes and lease takeovers can cause; all others are bugs of the service
_ALARMS = (" ERROR ", " CRITICAL ", "Traceback", "Exception", "never retrieved", "never awaited")


def fork(work: Callable[[], Coroutine[Any, Any, None]], error: Path, output: Path) -> int:
    """Run work in a child process, which exits with 0 on success."""
    child = os.fork()
    if child:
        return child
    status = 9
    try:
        # uncaught errors are written there
        with output.open("a") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
        uvloop.run(work())
        status = 0
    except BaseException:  # noqa: BLE001  (reported to the parent)
        error.write_text(traceback.format_exc())
    finally:
        os._exit(status)


class Run:
    """One seed: fork the processes, and restart the service after each kill."""

    def __init__(
        self,
        root: Path,
        seed: int,
        payments: int,
        *,
        embedded: bool,
        bug: str = "",
        attacker: BuyerBehavior | None = None,
        engine: str = postgres.SQLITE,
    ) -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        self._root = root
        self.plan: Plan = plan(
            seed,
            payments,
            embedded=embedded,
            attacker=PLANTED_BUGS[bug].attacker if bug else attacker,
            address_kinds=(bug and PLANTED_BUGS[bug].address_kinds) or ADDRESS_KINDS,
            only_reorgs=bool(bug) and PLANTED_BUGS[bug].needs_reorgs,
            has_leases=engine != postgres.SQLITE,
        )
        self._environment = ChaosEnvironment(root, embedded, self.plan.keys, bug, engine)
        if engine != postgres.SQLITE:
            # every process finds it by its name
            postgres.get_database(self._environment.home.path, engine)
        self._kills = [*self.plan.kills]
        self._chains = 0
        self._service = 0
        self.deaths = 0

    @property
    def name(self) -> str:
        environment = self._environment
        embedded = " embedded" if environment.embedded else ""
        engine = "" if environment.engine == postgres.SQLITE else f" {environment.engine}"
        return f"{self.plan.seed}{embedded}{engine}"

    def fork(self) -> int:
        """Run in a child process."""
        child = os.fork()
        if not child:
            try:
                (self._root / "result.json").write_text(json.dumps(self.run()))
            finally:
                os._exit(0)
        return child

    def read_result(self) -> dict[str, Any]:
        """Return the result of `run` in the other process; `bad` is empty on success."""
        path = self._root / "result.json"
        if not path.exists():
            return {"bad": ["the run itself failed"], "deaths": 0, "seconds": 0}
        return json.loads(path.read_text())

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        QuickClock.create(self._environment.clock)
        self._environment.home.open().get_or_create_secrets()
        try:
            if not self._environment.embedded:
                self._chains = self._start("chains", self._chains_work)
            self._start_service()
            driver = fork(
                lambda: chaos_run.drive(self._environment, self.plan),
                self._root / "driver-error",
                self._root / "driver.log",
            )
            self._wait_for_driver(driver)
            verdict = self._build_verdict()
        finally:
            for child in (self._service, self._chains):
                if child:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
        return {**verdict, "deaths": self.deaths, "seconds": round(time.monotonic() - began, 1)}

    def _chains_work(self, ready: Callable[[], None]) -> Coroutine[Any, Any, None]:
        return stages.run_chains(self._environment, self.plan.seed, self.plan.nodes, ready)

    def _service_work(
        self, kill: Kill | None
    ) -> Callable[[Callable[[], None]], Coroutine[Any, Any, None]]:
        return lambda ready: stages.serve(self._environment, kill, ready)

    def _start(
        self, name: str, work: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]
    ) -> int:
        """Return a process that is ready or already dead."""
        ready_reader, ready = os.pipe()
        child = fork(
            lambda: work(lambda: discard(os.write(ready, b"."))),
            self._root / f"{name}-error",
            self._root / f"{name}.log",
        )
        os.close(ready)
        os.read(ready_reader, 1)
        os.close(ready_reader)
        return child

    def _start_service(self) -> None:
        """Start the service with its next kill planned."""
        while True:
            kill = self._kills.pop(0) if self._kills else None
            self._service = self._start("service", self._service_work(kill))
            if os.waitpid(self._service, os.WNOHANG) == (0, 0):
                return
            # it died during its start
            self.deaths += 1

    def _wait_for_driver(self, driver: int) -> None:
        """Return after the driver ends; restart the service after each kill."""
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
                (self._root / "driver-error").write_text(f"{name} ended without a kill: {status}")
                return
            self.deaths += 1
            self._start_service()

    def _build_verdict(self) -> dict[str, Any]:
        bad = [path.read_text() for path in sorted(self._root.glob("*-error"))]
        if self._service:
            os.kill(self._service, signal.SIGTERM)
            status = os.waitpid(self._service, 0)[1]
            self._service = 0
            if status:
                bad.append(f"the service did not stop in peace: {status}")
        path = self._root / "verdict.json"
        verdict = json.loads(path.read_text()) if path.exists() else {"bad": []}
        patterns = verdict.pop("alarms", {"may": [], "must": []})
        bad += verdict["bad"] + find_alarms(self._environment.log, patterns["may"])
        # each death can lose one alarm
        missing = find_unraised(self._environment.log, patterns["must"])
        if len(missing) > self.deaths:
            bad.append(f"alarms that were not raised: {missing}")
        return {**verdict, "bad": bad, "alarms": len(patterns["must"])}


def discard(_: Any) -> None:
    """Discard a value."""


def find_alarms(log: Path, may: Sequence[str] = ()) -> list[str]:
    """Return the log lines that must never occur; `may` has patterns of allowed lines."""
    if not log.exists():
        return []
    lines = log.read_text(errors="replace").splitlines()
    return [
        line
        for line in lines
        if any(alarm in line for alarm in _ALARMS)
        and not any(re.search(text, line) for text in may)
    ]


def find_unraised(log: Path, must: Sequence[str]) -> list[str]:
    """Return the patterns of alarms that the service should have raised but did not."""
    log_text = log.read_text(errors="replace") if log.exists() else ""
    return [text for text in must if not re.search(text, log_text)]


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
    parser.add_argument(
        "--bug", default="", choices=PLANTED_BUGS, help="to be found (tests.chaos.planted_bugs)"
    )
    parser.add_argument(
        "--attacker", type=BuyerBehavior, choices=ATTACKERS, help="attackers of one kind alone"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/chaos"))
    parser.add_argument(
        "--engine",
        action="append",
        choices=(postgres.SQLITE, postgres.POSTGRES),
        help="of the store; named twice, each seed runs on both",
    )
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    namespace = parser.parse_args()
    seeds = [namespace.seed] if namespace.seed is not None else list(range(1, namespace.seeds + 1))
    runs = [
        Run(
            namespace.folder / f"seed-{seed}{'' if engine == postgres.SQLITE else '-' + engine}",
            seed,
            namespace.payments,
            embedded=namespace.embedded,
            bug=namespace.bug,
            attacker=namespace.attacker,
            engine=engine,
        )
        for engine in namespace.engine or [postgres.SQLITE]
        for seed in seeds
    ]
    results = campaign(runs, namespace.jobs)
    print_table(results)
    return 1 if any(result["bad"] for result in results.values()) else 0


def campaign(runs: Sequence[Run], jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Return the verdicts by name; run `jobs` at a time, and print each when it ends."""
    waiting, running, results = list(runs), dict[int, Run](), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            run = waiting.pop(0)
            running[run.fork()] = run
        child, _ = os.waitpid(-1, 0)
        run = running.pop(child)
        results[run.name] = run.read_result()
        shown = {**results[run.name], "bad": results[run.name]["bad"][:SHOWN]}
        print(f"{run.plan.describe()}\n  {json.dumps(shown)}", flush=True)
    return results


def print_table(results: dict[str, dict[str, Any]]) -> None:
    """Print a table with a line per seed."""
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
            _format_bill(result, "gas_a_paid_payment", "gas_a_failed_payment"),
            _format_bill(result, "lost_to_code", "bound"),
            _format_bill(result, "failures"),
            _format_bill(result, "accounts_opened"),
            str(sum(result.get("effects", {}).values())),
            str(result["deaths"]),
            str(result["seconds"]),
            "\n".join(result["bad"][:3])[:300],
        )
    Console(highlight=False, width=200).print(table)


def _format_bill(result: dict[str, Any], *names: str) -> str:
    """Format parts of a bill."""
    return ", ".join(f"{result.get('bill', {}).get(name, 0):,}" for name in names)


if __name__ == "__main__":
    load_all()
    sys.exit(main())
