"""Runs the subjects one after the other and tells their figures."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench import (
    codec,
    create,
    database,
    direct,
    export,
    fanout,
    gas,
    hints,
    limits,
    observed,
    options,
    pages,
    payments,
    report,
    settle,
    simulate,
    startup,
    status,
    verify,
    watchers,
)
from tests.bench.florin import Florin, florin
from tests.bench.load import child
from tests.bench.report import Figure
from tests.support.postgres import is_there

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
    "observed": observed.measure,
    "create": _with_florin(create.measure),
    "payments": payments.measure,
    "verify": verify.measure,
    "settle": settle.measure,
    "fanout": _with_florin(fanout.measure),
    "watchers": _with_florin(watchers.measure),
    "startup": startup.measure,
    "pages": pages.measure,
    "gas": gas.measure,
    "options": options.measure,
    "simulate": simulate.measure,
    "export": export.measure,
}
if is_there():
    SUBJECTS["database"] = database.measure
    SUBJECTS["hints"] = hints.measure
    SUBJECTS["limits"] = limits.measure


def main(wanted: Sequence[str], *, kept: bool = True) -> int:
    """Measures one subject after the other, and tells each as it ends; 1 if one of them failed.

    A run of all subjects is `kept` in a file, with what is there if it ends early.
    """
    if unknown := sorted({*wanted} - {*SUBJECTS}):
        print(f"no subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
        return 2
    figures: list[Figure] = []
    failed: list[str] = []
    started = time.monotonic()
    for name in wanted or SUBJECTS:
        print(f"{time.monotonic() - started:5.0f} s  {name} …", flush=True)
        try:
            # a process of its own for each: one that is broken does not break the next
            with child() as pool:
                found = SUBJECTS[name](pool)
        except Exception:  # noqa: BLE001  (whatever it is, the others are still measured)
            failed.append(name)
            print(f"{name} failed:\n{traceback.format_exc()}", flush=True)
            continue
        report.show(name, found)
        figures += found
        if kept and not wanted:
            report.save(figures, RESULT)
    missed = [figure.name for figure in figures if figure.met is False]
    print(f"{len(figures)} figures in {time.monotonic() - started:.0f} s", end="")
    print(f"; also in {RESULT}" if kept and not wanted else "")
    for text, names in (("targets missed", missed), ("subjects failed", failed)):
        if names:
            print(f"{text}: {', '.join(names)}")
    return 1 if failed else 0
