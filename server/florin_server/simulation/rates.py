"""What a coin costs on simulated days: a price that moves by the seed, told as any source tells it.

The service asks for it over HTTP, as its settings say, and never learns that it is made up.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from florin_server.clock import Clock
from florin_server.pricing.settings import FromHttp, HttpSource, PricedBy, PriceSettings
from florin_server.simulation.knobs import Knobs
from florin_server.simulation.population import DAY_US, HOUR_US, SECOND_US

_STEP_US: Final = 60 * SECOND_US
# of the coin's own moves: how far currencies move against each other besides
_CURRENCIES: Final = 0.1
_SOURCE: Final = "simulated"
_HOST: Final = "127.0.0.1"


class Walk:
    """Prices as random walks of one step a minute; times are microseconds since the beginning.

    `prices` are those of the beginning, by currency. `jumps_us` is when all of them jump, in the
    busy hours of a day in the middle; None if nothing was planted.
    """

    def __init__(self, knobs: Knobs, prices: Mapping[str, str]) -> None:
        self._prices = {currency: float(price) for currency, price in prices.items()}
        self._sigma = knobs.volatility / 100 / math.sqrt(DAY_US / _STEP_US)
        self._jump = math.log1p(knobs.jump / 100)
        self._chances = {one: _chance(f"rates {one}", knobs) for one in ("", *prices)}
        self._moved: dict[str, list[float]] = {one: [0.0] for one in self._chances}
        self.jumps_us: int | None = None
        if knobs.jump:
            hour = _chance("jump", knobs).uniform(9, 17)
            self.jumps_us = (knobs.days // 2) * DAY_US + round(hour * HOUR_US)

    def price(self, currency: str, at_us: int) -> str:
        """What a coin costs at a time, in decimal digits."""
        own = _CURRENCIES * self._sum(currency, at_us)
        moved = self._sigma * (self._sum("", at_us) + own)
        if self.jumps_us is not None and at_us >= self.jumps_us:
            moved += self._jump
        return f"{self._prices[currency] * math.exp(moved):.6f}"

    def _sum(self, what: str, at_us: int) -> float:
        steps, chance = self._moved[what], self._chances[what]
        step = max(0, at_us // _STEP_US)
        while len(steps) <= step:
            steps.append(steps[-1] + chance.gauss(0, 1))
        return steps[step]


def _chance(what: str, knobs: Knobs) -> random.Random:
    return random.Random(f"{what} {knobs.seed}")  # noqa: S311  (stories, not secrets)


@asynccontextmanager
async def told(
    knobs: Knobs, begin_us: int, clock: Clock, asset: str, prices: Mapping[str, str]
) -> AsyncIterator[PriceSettings | None]:
    """The settings by which a service asks for the prices of an asset (CAIP-19) as they move.

    None if they do not. OSError if no port is free.
    """
    if not knobs.volatility and not knobs.jump:
        yield None
        return
    walk = Walk(knobs, prices)

    async def answer(_request: web.Request) -> web.Response:
        at_us = clock.now_us() - begin_us
        return web.json_response({one: walk.price(one, at_us) for one in prices})

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, 0).start()
        port = runner.addresses[0][1]
        source = HttpSource(url=f"http://{_HOST}:{port}/", path=("{quote}",))
        ways: dict[str, tuple[PricedBy, ...]] = {
            one: (FromHttp(kind="http", source=_SOURCE, base="coin", quote=one),) for one in prices
        }
        yield PriceSettings(http={_SOURCE: source}, pairs={asset: ways})
    finally:
        await runner.cleanup()
