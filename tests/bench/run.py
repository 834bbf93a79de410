"""Run the subjects one after another and report their figures."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench import (
    addresses,
    archive,
    checkout,
    codec,
    create,
    database,
    direct,
    export,
    facilitator,
    fanout,
    finality,
    gas,
    hints,
    idle,
    limits,
    machine,
    million,
    notify,
    observation,
    options,
    options_cpu,
    pages,
    partitions,
    payment_cost,
    payments,
    receipts,
    report,
    settle,
    simulate,
    startup,
    status,
    transcoder,
    verify,
    watchers,
    watching,
    workers,
)
from tests.bench.florin import Florin, florin
from tests.bench.load import child
from tests.bench.report import Figure
from tests.support.postgres import is_available

RESULT = Path("build/bench.json")

Subject = Callable[[ProcessPoolExecutor], list[Figure]]


def _with_florin(
    measure: Callable[[Florin, ProcessPoolExecutor], list[Figure]],
) -> Subject:
    def subject(pool: ProcessPoolExecutor) -> list[Figure]:
        with florin() as running:
            return measure(running, pool)

    return subject


SUBJECTS: dict[str, Subject] = {
    "status": _with_florin(status.measure),
    "direct": _with_florin(direct.measure),
    "codec": _with_florin(codec.measure),
    "transcoder": _with_florin(transcoder.measure),
    "addresses": addresses.measure,
    "watching": watching.measure,
    "observed": observation.measure,
    "create": _with_florin(create.measure),
    "payments": payments.measure,
    "verify": verify.measure,
    "settle": settle.measure,
    "facilitator": facilitator.measure,
    "fanout": _with_florin(fanout.measure),
    "finality": finality.measure,
    "watchers": _with_florin(watchers.measure),
    "checkout": _with_florin(checkout.measure),
    "startup": startup.measure,
    "pages": pages.measure,
    "gas": gas.measure,
    "options": options.measure,
    "options_cpu": options_cpu.measure,
    "idle": idle.measure,
    "simulate": simulate.measure,
    "export": export.measure,
    "receipts": receipts.measure,
}
if is_available():
    SUBJECTS |= {
        "database": database.measure,
        "whole": payment_cost.measure,
        "hints": hints.measure,
        "notify": notify.measure,
        "limits": limits.measure,
        "million": million.measure,
        "archive": archive.measure,
        "partitions": partitions.measure,
        "workers": workers.measure,
    }


def main(subjects: Sequence[str], *, is_saved: bool = True) -> int:
    """Measure one subject after another, and report each when it ends; return 1 if one failed.

    If `is_saved`, a run of all subjects is saved to files, with partial results if it ends early.
    Failed subjects are saved with their reason.
    """
    if unknown := sorted({*subjects} - {*SUBJECTS}):
        print(f"no subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
        return 2
    run_report = report.Report(machine.facts())
    is_saved = is_saved and not subjects
    started = time.monotonic()
    for name in subjects or SUBJECTS:
        print(f"{time.monotonic() - started:5.0f} s  {name} …", flush=True)
        run_report.subjects[name] = measured = _measured(SUBJECTS[name])
        if not measured.failed:
            report.show(name, measured.figures)
        if is_saved:
            run_report.save(RESULT)
    figures = [figure for subject in run_report.subjects.values() for figure in subject.figures]
    print(f"{len(figures)} figures in {time.monotonic() - started:.0f} s", end="")
    print(f"; also in {RESULT} and {RESULT.with_suffix('.md')}" if is_saved else "")
    missed = [figure.name for figure in figures if figure.met is False]
    failed = [name for name, subject in run_report.subjects.items() if subject.failed]
    for text, names in (("targets missed", missed), ("subjects failed", failed)):
        if names:
            print(f"{text}: {', '.join(names)}")
    return 1 if failed else 0


def _measured(subject: Subject) -> report.Measured:
    """Measure a subject in a separate process, so that its failure affects no other."""
    started = time.monotonic()
    try:
        with child() as pool:
            figures = subject(pool)
    except Exception as error:  # noqa: BLE001  (the others are still measured)
        print(f"failed:\n{traceback.format_exc()}", flush=True)
        return report.Measured(time.monotonic() - started, failed=report.fault(error))
    return report.Measured(time.monotonic() - started, tuple(figures))
