"""Run a simulation on a state folder, and audit the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import cast

from florin_server.settings import Settings

from florin_sandbox.simulation import check, folder
from florin_sandbox.simulation.config import SimulationConfig
from florin_sandbox.simulation.environment import open_environment
from florin_sandbox.simulation.population import DAY_US, generate_plan
from florin_sandbox.simulation.quiet_loop import QuietLoop
from florin_sandbox.simulation.report import SimulationReport, build_report
from florin_sandbox.simulation.runner import SimulationRunner
from florin_sandbox.simulation.scenario import PaymentScenario


@dataclass(frozen=True, slots=True)
class SimulationProgress:
    """The progress of a simulation."""

    done: int
    total: int
    now_us: int  # simulated time since the Unix epoch


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of a simulation. `problems` are the findings of the final audit.

    `begin_us` and `end_us` are simulated times since the Unix epoch; `duration_s` is real time.
    """

    config: SimulationConfig
    begin_us: int
    end_us: int
    scenarios: Sequence[PaymentScenario]
    report: SimulationReport
    problems: Sequence[str]
    duration_s: float


def simulate(
    settings: Settings,
    config: SimulationConfig,
    progress: Callable[[SimulationProgress], None] = lambda _: None,
    *,
    first_day: date | None = None,
) -> SimulationResult:
    """Simulate on the state folder of the settings, in its own event loop; blocks until done.

    `first_day` is the first day (UTC), for a folder that does not exist yet; without it the days
    end about now. SetupError, StoreError, DevChainError or OSError if the simulation cannot run;
    ScenarioStuck if payments do not end.
    """
    home = folder.get_usable_home(settings)

    async def simulated() -> SimulationResult:
        days = await folder.plan_period(home, config.days, first_day)
        return await _simulate(settings, config, progress, days)

    with asyncio.Runner(loop_factory=QuietLoop) as runner:
        return runner.run(simulated())


async def _simulate(
    settings: Settings,
    config: SimulationConfig,
    progress: Callable[[SimulationProgress], None],
    days: folder.SimulatedPeriod,
) -> SimulationResult:
    started = time.monotonic()
    population = generate_plan(config, days.begin_us)
    name = f"sim-{config.seed}-{days.begin_us // 1_000_000:x}"
    loop = cast("QuietLoop", asyncio.get_running_loop())
    async with open_environment(settings, config, days.begin_us, loop) as stage:
        ground = await check.start_audit(stage)
        await stage.register_merchants(population.merchants, name)
        runner = SimulationRunner(stage, population, name)
        stories = await runner.run(
            lambda done, now_us: progress(SimulationProgress(done, config.payments, now_us))
        )
        end_us = max(stage.now_us, days.begin_us + config.days * DAY_US)
        await stage.advance(end_us)
        problems = await check.run_audit(stage, ground, stories)
        await folder.advance_store_clock(stage.service.app.store, days, end_us)
    return SimulationResult(
        config=config,
        begin_us=days.begin_us,
        end_us=end_us,
        scenarios=stories,
        report=build_report(stories),
        problems=problems,
        duration_s=time.monotonic() - started,
    )
