"""How long `florin up` takes from nothing to its first `ready`."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from tests.bench.florin import florin
from tests.bench.report import Figure, median_of
from tests.bench.size import sized

ROUNDS = sized(3, 1)


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    times = []
    for _ in range(ROUNDS):
        with florin() as running:
            times.append(running.ready_s)
    note = "florin up in an empty folder until /readyz answers 200"
    return [median_of("up_ready_s", times, "s", note, at_most=3)]
