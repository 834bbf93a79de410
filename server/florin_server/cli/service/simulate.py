"""`florin simulate`: days of payments on the state folder of a Florin that does not run."""

from __future__ import annotations

import logging
import sys
from datetime import date, datetime
from typing import Any

import orjson
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from florin_server.boot.home import Refused
from florin_server.cli.console import aside, console, fail, note
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.devnet.errors import DevChainError
from florin_server.simulation.knobs import BadKnob, Knobs
from florin_server.simulation.report import Report
from florin_server.simulation.run import Moment, Result, simulate
from florin_server.simulation.story import Stuck
from florin_server.store.engine.query import StoreError

_FAILED = "Nothing is simulated"
# of all payments: how often progress is told as a line
_TOLD_EVERY = 100
_PROBLEMS_MAX = 10


def run(
    given: dict[str, Any], chosen: dict[str, Any], *, begin: datetime | None, as_json: bool
) -> None:
    """Simulates; ends the program if that cannot be, or its end is not as it must be."""
    try:
        knobs = Knobs(**chosen)
    except BadKnob as error:
        fail(_FAILED, error, 2)
    settings = settings_of(given)
    # stories have late payments and lapsed signatures in them: no news here
    logging.getLogger("florin_server").setLevel(logging.CRITICAL)
    try:
        shown = _told if as_json else _shown
        result = shown(settings, knobs, begin.date() if begin else None)
    except (Refused, StoreError, DevChainError, OSError) as error:
        fail(_FAILED, error)
    except Stuck as error:
        fail("The simulation failed", error)
    except KeyboardInterrupt:
        note("Ended before its end; what was done until then is there.")
        raise SystemExit(130) from None
    if result.problems:
        more = len(result.problems) - _PROBLEMS_MAX
        told = [*result.problems[:_PROBLEMS_MAX], *([f"and {more} more"] if more > 0 else [])]
        fail("The check of the simulation failed", "; ".join(told))


def _told(settings: Settings, knobs: Knobs, first: date | None) -> Result:
    """Progress and the result as lines of JSON."""
    last = -1

    def tell(moment: Moment) -> None:
        nonlocal last
        step = moment.done * _TOLD_EVERY // moment.of
        if step > last:
            last = step
            _line({"done": moment.done, "of": moment.of, "nowUs": moment.now_us})

    result = simulate(settings, knobs, tell, first=first)
    _line(
        {
            "beginUs": result.begin_us,
            "endUs": result.end_us,
            "tookS": round(result.took_s, 3),
            "report": result.report.values(),
            "problems": list(result.problems),
        }
    )
    return result


def _line(values: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(values).decode() + "\n")
    sys.stdout.flush()


def _shown(settings: Settings, knobs: Knobs, first: date | None) -> Result:
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    # what is no terminal gets no line that is drawn again and again
    bar = Progress(*columns, TimeRemainingColumn(), console=aside, disable=not aside.is_terminal)
    task = bar.add_task("Payments", total=knobs.payments)

    def tell(moment: Moment) -> None:
        # a refusal comes before it
        bar.start()
        bar.update(task, completed=moment.done)

    try:
        result = simulate(settings, knobs, tell, first=first)
    finally:
        bar.stop()
    _show(result)
    return result


def _show(result: Result) -> None:
    report, days = result.report, result.knobs.days
    console.print(
        f"{report.payments:,} payments in {days} day{'s' * (days > 1)}, simulated in "
        f"{result.took_s:.0f} s (seed {result.knobs.seed})"
    )
    for what, counts in _lines(report):
        told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        console.print(f"{what:<10}{told or 'none'}")
    table = Table("chain", "succeeded", "promised", "half within", "95 % within")
    for chain, one in report.times.items():
        promised, p50, p95 = f"{one.promised_s:.0f} s", f"{one.p50_s:.1f} s", f"{one.p95_s:.1f} s"
        table.add_row(chain, f"{one.count:,}", promised, p50, p95)
    console.print(table)
    if not result.problems:
        console.print(
            "[bold green]Checked:[/] every payment ended as its buyer was told, and chains, "
            "wallets and books agree to the unit.",
            markup=True,
        )


def _lines(report: Report) -> list[tuple[str, dict[str, int]]]:
    returned = {"late money returned": report.returned} if report.returned else {}
    return [
        ("outcomes", report.outcomes),
        ("funnel", report.funnel),
        ("refunds", report.refunds | returned),
    ]
