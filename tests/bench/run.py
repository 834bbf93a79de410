"""Runs the subjects one after the other and tells their figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench import (
    codec,
    create,
    fanout,
    gas,
    options,
    pages,
    payments,
    report,
    settle,
    startup,
    status,
    verify,
    watchers,
)
from tests.bench.florin import Florin, florin
from tests.bench.load import child
from tests.bench.report import Figure

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
    "codec": _with_florin(codec.measure),
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
}


def main(wanted: Sequence[str]) -> None:
    """Measures; a run of some subjects only writes no file."""
    chosen = wanted or list(SUBJECTS)
    figures: list[Figure] = []
    started = time.monotonic()
    with child() as pool:
        for name in chosen:
            print(f"{time.monotonic() - started:5.0f} s  {name} …", flush=True)
            figures += SUBJECTS[name](pool)
    report.show(figures)
    if not wanted:
        report.save(figures, RESULT)
        print(f"also in {RESULT}; took {time.monotonic() - started:.0f} s")
