"""`florin simulate`: simulate days of payments on the state folder of a stopped Florin."""

from __future__ import annotations

import logging
import sys
from datetime import date, datetime
from typing import Any

import orjson
from florin_server.app.home import SetupError
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    stderr_console,
)
from florin_server.cli.settings import get_settings
from florin_server.db.engine.query import StoreError
from florin_server.settings import Settings
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from florin_sandbox.devnet.errors import DevChainError
from florin_sandbox.simulation.config import InvalidSimulationConfig, SimulationConfig
from florin_sandbox.simulation.report import SimulationReport
from florin_sandbox.simulation.run import SimulationProgress, SimulationResult, simulate
from florin_sandbox.simulation.scenario import ScenarioStuck

_FAILED = "Not simulated"
# the number of progress lines in JSON output
_PROGRESS_LINES = 100
_PROBLEMS_MAX = 10


def run_simulation(
    overrides: dict[str, Any], options: dict[str, Any], *, begin: datetime | None, as_json: bool
) -> None:
    """Run a simulation; end the program if it cannot run, or its final check fails."""
    try:
        config = SimulationConfig(**options)
    except InvalidSimulationConfig as error:
        fail(_FAILED, error, 2)
    settings = get_settings(overrides)
    # scenarios include late payments and expired signatures: their log lines say nothing new
    for name in ("florin_server", "florin_sandbox"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        shown = _simulate_as_json if as_json else _simulate_with_bar
        result = shown(settings, config, begin.date() if begin else None)
    except (SetupError, StoreError, DevChainError, OSError) as error:
        fail(_FAILED, error)
    except ScenarioStuck as error:
        fail("The simulation failed", error)
    except KeyboardInterrupt:
        print_hint("Interrupted. The payments made so far stay in the state folder.")
        raise SystemExit(130) from None
    if result.problems:
        more = len(result.problems) - _PROBLEMS_MAX
        problems = [*result.problems[:_PROBLEMS_MAX], *([f"and {more} more"] if more > 0 else [])]
        fail("The final check of the simulation failed", "; ".join(problems))


def _simulate_as_json(
    settings: Settings, config: SimulationConfig, first_day: date | None
) -> SimulationResult:
    """Simulate, and print progress and result as lines of JSON."""
    last = -1

    def tell(moment: SimulationProgress) -> None:
        nonlocal last
        step = moment.done * _PROGRESS_LINES // moment.total
        if step > last:
            last = step
            _print_line({"done": moment.done, "of": moment.total, "nowUs": moment.now_us})

    result = simulate(settings, config, tell, first_day=first_day)
    _print_line(
        {
            "beginUs": result.begin_us,
            "endUs": result.end_us,
            "tookS": round(result.duration_s, 3),
            "report": result.report.to_json(),
            "problems": list(result.problems),
        }
    )
    return result


def _print_line(values: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(values).decode() + "\n")
    sys.stdout.flush()


def _simulate_with_bar(
    settings: Settings, config: SimulationConfig, first_day: date | None
) -> SimulationResult:
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    # a redrawn bar makes sense on terminals only
    bar = Progress(
        *columns,
        TimeRemainingColumn(),
        console=stderr_console,
        disable=not stderr_console.is_terminal,
    )
    task = bar.add_task("Payments", total=config.payments)

    def tell(moment: SimulationProgress) -> None:
        # start late: a refusal comes before the first progress
        bar.start()
        bar.update(task, completed=moment.done)

    try:
        result = simulate(settings, config, tell, first_day=first_day)
    finally:
        bar.stop()
    _print_result(result)
    return result


def _print_result(result: SimulationResult) -> None:
    report, days = result.report, result.config.days
    console.print(
        f"{report.payments:,} payments in {days} day{'s' * (days > 1)}, simulated in "
        f"{result.duration_s:.0f} s (seed {result.config.seed})"
    )
    for what, counts in _list_counts(report):
        counts_text = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        console.print(f"{what:<10}{counts_text or 'none'}")
    table = Table("chain", "succeeded", "promised", "half within", "95 % within")
    for chain, times in report.times.items():
        promised, p50, p95 = (
            f"{times.promised_s:.0f} s",
            f"{times.p50_s:.1f} s",
            f"{times.p95_s:.1f} s",
        )
        table.add_row(chain, f"{times.count:,}", promised, p50, p95)
    console.print(table)
    if not result.problems:
        console.print(
            "[bold green]Checked:[/] every payment ended as its buyer expects, and chains, "
            "wallets and ledger agree exactly.",
            markup=True,
        )


def _list_counts(report: SimulationReport) -> list[tuple[str, dict[str, int]]]:
    returned = {"late money returned": report.returned} if report.returned else {}
    return [
        ("outcomes", report.outcomes),
        ("funnel", report.funnel),
        ("refunds", report.refunds | returned),
    ]
