"""Run the machine many times, in chunks that each use a fresh service: the long form.

A chunk is determined by its seed alone, so a failure repeats anywhere.
"""

from __future__ import annotations

import logging
import multiprocessing
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.environment import Stage, staged
from tests.model.machine import machine

RUNS, STEPS_A_RUN = 150, 50
# durability does not matter here, and a disk would take most of the time
MEMORY = Path("/dev/shm")


@dataclass
class Tally:
    """The steps done, and the first failure."""

    steps: int = 0
    calls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    bad: str = ""

    def add(self, other: Tally) -> None:
        self.steps += other.steps
        self.calls += other.calls
        self.kinds += other.kinds
        self.ends += other.ends
        self.bad = self.bad or other.bad


def play(stage: Stage, number: int, runs: int, *, shrink: bool = True) -> None:
    """Run the machine; AssertionError contains the story of the failed payment."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run_state_machine_as_test(
        seed(number)(machine(stage)),
        settings=settings(
            max_examples=runs,
            stateful_step_count=STEPS_A_RUN,
            deadline=None,
            database=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    stage.run(stage.audit())


def chunk(number: int, runs: int, chain: bool) -> Tally:
    """Run one chunk; a failure is part of the tally."""
    # lapsed authorizations are expected here
    logging.getLogger("florin_server").setLevel(logging.ERROR)
    where = MEMORY if MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="florin-model-", dir=where) as folder,
        staged(Path(folder) / "home", chain=chain, seed=number, thorough=False) as stage,
    ):
        bad = ""
        try:
            play(stage, number, runs)
        except Exception as error:  # noqa: BLE001  (reported to the caller of the campaign)
            bad = "".join(traceback.format_exception(error))
        return Tally(stage.steps, stage.calls, stage.kinds, stage.ends, bad)


def campaign(steps: int, first_seed: int, workers: int, *, chain: bool) -> Tally:
    """Run chunks, seed by seed, until `steps` steps are done or one fails."""
    tally, started, number = Tally(), time.monotonic(), first_seed
    runs = RUNS // 10 if chain else RUNS
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawning) as pool:
        running: dict[Future[Tally], int] = {}
        while not tally.bad:
            while len(running) < workers and tally.steps < steps:
                running[pool.submit(chunk, number, runs, chain)] = number
                number += 1
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                which = running.pop(future)
                tally.add(future.result())
                pace = tally.steps / (time.monotonic() - started)
                print(f"seed {which}: {tally.steps:,} steps, {pace:,.0f}/s", flush=True)
                if tally.bad:
                    print(f"seed {which} fails; it alone: --seed {which} --steps 1", flush=True)
                    break
    return tally
