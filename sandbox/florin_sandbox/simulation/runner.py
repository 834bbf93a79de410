"""Advance the simulated time from one event to the next.

The clock jumps to the next event while no transaction is pending, and moves in steps of one block
while one is. It moves only when all work of the last moment is done.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from florin_sandbox.simulation.environment import SimulationEnvironment
from florin_sandbox.simulation.population import ChainOutage, SimulatedOrder, SimulationPlan
from florin_sandbox.simulation.scenario import PaymentScenario, ScenarioRunner, ScenarioStuck
from florin_sandbox.simulation.wallet import SimulatedWallet

# blocks after the last event, so that the service sees all events at a safe depth
_BLOCKS_AFTER = 40
# blocks in a row without an event: beyond this, something never ends
_STEPS_MAX = 5_000

ProgressListener = Callable[[int, int], None]


class SimulationRunner:
    """Runs one simulation. Times are microseconds since the Unix epoch."""

    def __init__(self, stage: SimulationEnvironment, population: SimulationPlan, name: str) -> None:
        self._stage = stage
        self._population = population
        self._name = name
        self._begin_us = population.begin_us
        end_us = self._begin_us + population.config.days * 86_400_000_000
        self._scenario_runner = ScenarioRunner(stage, self, self._begin_us, end_us, name)
        self._events: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._step_waiters: list[asyncio.Future[None]] = []
        self._in_flight: Counter[str] = Counter()
        self._scenario_tasks: dict[int, asyncio.Task[None]] = {}
        self.scenarios: list[PaymentScenario] = []

    # ---- waiting of scenarios

    async def wait_until(self, at_us: int) -> None:
        """Wait until a time."""
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._events, (at_us, next(self._order), due))
        await due

    async def wait_for_step(self) -> None:
        """Wait for the next move of the clock, e.g. by one block."""
        stepped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._step_waiters.append(stepped)
        await stepped

    @contextmanager
    def mark_in_flight(self, chain: str) -> Iterator[None]:
        """Mark a transaction as pending on a kind of chain during the block."""
        self._in_flight[chain] += 1
        try:
            yield
        finally:
            self._in_flight[chain] -= 1

    # ---- the run

    async def run(self, progress: ProgressListener) -> list[PaymentScenario]:
        """Run all orders to their end; ScenarioStuck if one does not end."""
        try:
            async with asyncio.TaskGroup() as group:
                for outage in self._population.outages:
                    group.create_task(self._run_outage(outage))
                await self._run_events(group, progress)
        except* ScenarioStuck as failures:
            raise failures.exceptions[0] from None
        await self._finish_blocks()
        self.scenarios.sort(key=lambda scenario: scenario.order.number)
        return self.scenarios

    async def _run_events(self, group: asyncio.TaskGroup, progress: ProgressListener) -> None:
        upcoming = deque(self._population.orders)
        steps = 0
        await self._stage.wait_until_idle()
        while upcoming or self._events or self._scenario_tasks:
            times = [self._begin_us + upcoming[0].at_us] if upcoming else []
            times += [self._events[0][0]] if self._events else []
            block_us = self._stage.find_next_block_us(self._list_busy_chains)
            event_us = min(times, default=None)
            steps = 0 if event_us is not None and (block_us or event_us) >= event_us else steps + 1
            if steps > _STEPS_MAX or (block_us is None and event_us is None):
                raise ScenarioStuck(
                    f"these payments do not end: {', '.join(self._list_unfinished())}"
                )
            to_us = min(time_us for time_us in (block_us, event_us) if time_us is not None)
            await self._stage.advance(max(to_us, self._stage.now_us))
            self._release_waiters()
            while upcoming and self._begin_us + upcoming[0].at_us <= self._stage.now_us:
                order = upcoming.popleft()
                self._scenario_tasks[order.number] = group.create_task(self._run_scenario(order))
            await self._stage.wait_until_idle()
            progress(len(self.scenarios), self._stage.now_us)

    @property
    def _list_busy_chains(self) -> list[str]:
        return [chain for chain, count in self._in_flight.items() if count]

    def _release_waiters(self) -> None:
        """Resume the scenarios that waited for a step, or for this time."""
        stepped, self._step_waiters = self._step_waiters, []
        while self._events and self._events[0][0] <= self._stage.now_us:
            stepped.append(heapq.heappop(self._events)[2])
        for future in stepped:
            if not future.done():
                future.set_result(None)

    def _list_unfinished(self) -> list[str]:
        return [f"order {n}" for n in sorted(self._scenario_tasks)][:5]

    async def _run_scenario(self, order: SimulatedOrder) -> None:
        wallet = self._create_wallet(order)
        self.scenarios.append(await self._scenario_runner.run(order, wallet))
        del self._scenario_tasks[order.number]

    def _create_wallet(self, order: SimulatedOrder) -> SimulatedWallet:
        name = f"{self._name} buyer {order.buyer}"
        return SimulatedWallet(order.wallet_kind, name, self._stage.nodes, self._wait_for_block)

    async def _wait_for_block(self) -> None:
        with self.mark_in_flight("evm"):
            await self.wait_for_step()

    async def _run_outage(self, outage: ChainOutage) -> None:
        pace = self._stage.pacers[outage.chain]
        await self.wait_until(self._begin_us + outage.start_us)
        await pace.stop()
        await self.wait_until(self._begin_us + outage.end_us)
        await pace.resume(self._stage.now_us)

    async def _finish_blocks(self) -> None:
        """Produce more blocks until the service has no open transactions."""
        for step in itertools.count():
            if step > _STEPS_MAX:
                raise ScenarioStuck("transactions of the service do not end")
            if step >= _BLOCKS_AFTER and self._stage.is_idle:
                return
            at_us = self._stage.find_next_block_us(self._stage.pacers)
            await self._stage.advance(max(at_us or 0, self._stage.now_us))
