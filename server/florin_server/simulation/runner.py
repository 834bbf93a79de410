"""Lets time go by, from one event to the next.

In one leap while nothing is on its way, and in steps of a block while something is. The clock is
moved only when everything is done that came of the last moment.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from florin_server.simulation.population import Order, Outage, Population
from florin_server.simulation.stage import Stage
from florin_server.simulation.story import Story, Stuck, Teller
from florin_server.simulation.wallet import Wallet

# blocks after the last event, so that the service has seen all of it from a safe depth
_AFTER = 40
# blocks in a row that end nothing: something will not end at all
_STEPS_MAX = 5_000

Progress = Callable[[int, int], None]


class Runner:
    """One simulation under way. Times are microseconds since the Unix epoch."""

    def __init__(self, stage: Stage, population: Population, name: str) -> None:
        self._stage = stage
        self._population = population
        self._name = name
        self._begin_us = population.begin_us
        end_us = self._begin_us + population.knobs.days * 86_400_000_000
        self._teller = Teller(stage, self, self._begin_us, end_us, name)
        self._events: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._steppers: list[asyncio.Future[None]] = []
        self._flying: Counter[str] = Counter()
        self._telling: dict[int, asyncio.Task[None]] = {}
        self.stories: list[Story] = []

    # ---- how stories wait

    async def until(self, at_us: int) -> None:
        """Returns at a time."""
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._events, (at_us, next(self._order), due))
        await due

    async def next_step(self) -> None:
        """Returns once the clock was moved on, be it by a block."""
        stepped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._steppers.append(stepped)
        await stepped

    @contextmanager
    def flying(self, chain: str) -> Iterator[None]:
        """Something is on its way on a kind of chain as long as this lasts."""
        self._flying[chain] += 1
        try:
            yield
        finally:
            self._flying[chain] -= 1

    # ---- what happens

    async def run(self, progress: Progress) -> list[Story]:
        """Everything that the population does, to its end; Stuck if something has none."""
        try:
            async with asyncio.TaskGroup() as group:
                for outage in self._population.outages:
                    group.create_task(self._befall(outage))
                await self._go_on(group, progress)
        except* Stuck as found:
            raise found.exceptions[0] from None
        await self._settle()
        self.stories.sort(key=lambda one: one.order.n)
        return self.stories

    async def _go_on(self, group: asyncio.TaskGroup, progress: Progress) -> None:
        upcoming = deque(self._population.orders)
        steps = 0
        await self._stage.quiet()
        while upcoming or self._events or self._telling:
            times = [self._begin_us + upcoming[0].at_us] if upcoming else []
            times += [self._events[0][0]] if self._events else []
            block_us = self._stage.next_block_us(self._flying_on)
            event_us = min(times, default=None)
            steps = 0 if event_us is not None and (block_us or event_us) >= event_us else steps + 1
            if steps > _STEPS_MAX or (block_us is None and event_us is None):
                raise Stuck(f"these payments do not end: {', '.join(self._left())}")
            to_us = min(one for one in (block_us, event_us) if one is not None)
            await self._stage.advance(max(to_us, self._stage.now_us))
            self._release()
            while upcoming and self._begin_us + upcoming[0].at_us <= self._stage.now_us:
                order = upcoming.popleft()
                self._telling[order.n] = group.create_task(self._tell(order))
            await self._stage.quiet()
            progress(len(self.stories), self._stage.now_us)

    @property
    def _flying_on(self) -> list[str]:
        return [chain for chain, count in self._flying.items() if count]

    def _release(self) -> None:
        """Lets those go on who waited for a step, or for this time."""
        stepped, self._steppers = self._steppers, []
        while self._events and self._events[0][0] <= self._stage.now_us:
            stepped.append(heapq.heappop(self._events)[2])
        for one in stepped:
            if not one.done():
                one.set_result(None)

    def _left(self) -> list[str]:
        return [f"order {n}" for n in sorted(self._telling)][:5]

    async def _tell(self, order: Order) -> None:
        wallet = self._wallet(order)
        self.stories.append(await self._teller.tell(order, wallet))
        del self._telling[order.n]

    def _wallet(self, order: Order) -> Wallet:
        name = f"{self._name} buyer {order.buyer}"
        return Wallet(order.purse, name, self._stage.nodes, self._block)

    async def _block(self) -> None:
        with self.flying("evm"):
            await self.next_step()

    async def _befall(self, outage: Outage) -> None:
        pace = self._stage.paces[outage.chain]
        await self.until(self._begin_us + outage.from_us)
        await pace.stop()
        await self.until(self._begin_us + outage.until_us)
        await pace.resume(self._stage.now_us)

    async def _settle(self) -> None:
        """Lets some more blocks come, and whatever the service has under way end."""
        for step in itertools.count():
            if step > _STEPS_MAX:
                raise Stuck("transactions of the service do not end")
            if step >= _AFTER and self._stage.is_idle:
                return
            at_us = self._stage.next_block_us(self._stage.paces)
            await self._stage.advance(max(at_us or 0, self._stage.now_us))
