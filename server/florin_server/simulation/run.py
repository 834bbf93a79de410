"""From knobs to a state folder with life in it, checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import cast

from florin_server.config import Settings
from florin_server.simulation import check, folder
from florin_server.simulation.knobs import Knobs
from florin_server.simulation.population import DAY_US, populate
from florin_server.simulation.quiet import QuietLoop
from florin_server.simulation.report import Report, report_of
from florin_server.simulation.runner import Runner
from florin_server.simulation.stage import staged
from florin_server.simulation.story import Story


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a simulation is."""

    done: int
    of: int
    now_us: int  # in what is simulated, since the Unix epoch


@dataclass(frozen=True, slots=True)
class Result:
    """What was simulated. `problems` is what the check of its end found wrong: nothing, if empty.

    `begin_us` and `end_us` are since the Unix epoch, `took_s` of the machine.
    """

    knobs: Knobs
    begin_us: int
    end_us: int
    stories: Sequence[Story]
    report: Report
    problems: Sequence[str]
    took_s: float


def simulate(
    settings: Settings,
    knobs: Knobs,
    progress: Callable[[Moment], None] = lambda _: None,
    *,
    first: date | None = None,
) -> Result:
    """Simulates on the state folder of the settings, in a loop of its own; takes its time.

    `first` is the first day (UTC), for a folder that does not exist yet; without it the days end
    about now. Refused, StoreError, DevChainError or OSError if it cannot run, Stuck if payments do
    not end.
    """
    home = folder.usable(settings)

    async def simulated() -> Result:
        days = await folder.days_of(home, knobs.days, first)
        return await _simulate(settings, knobs, progress, days)

    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(simulated())


async def _simulate(
    settings: Settings, knobs: Knobs, progress: Callable[[Moment], None], days: folder.Days
) -> Result:
    started = time.monotonic()
    population = populate(knobs, days.begin_us)
    name = f"sim-{knobs.seed}-{days.begin_us // 1_000_000:x}"
    loop = cast("QuietLoop", asyncio.get_running_loop())
    async with staged(settings, knobs, days.begin_us, loop) as stage:
        ground = await check.begin(stage)
        await stage.open_shops(population.merchants, name)
        runner = Runner(stage, population, name)
        stories = await runner.run(
            lambda done, now_us: progress(Moment(done, knobs.payments, now_us))
        )
        end_us = max(stage.now_us, days.begin_us + knobs.days * DAY_US)
        await stage.advance(end_us)
        problems = await check.check(stage, ground, stories)
        await folder.keep_up(stage.service.app.store, days, end_us)
    return Result(
        knobs=knobs,
        begin_us=days.begin_us,
        end_us=end_us,
        stories=stories,
        report=report_of(stories),
        problems=problems,
        took_s=time.monotonic() - started,
    )
