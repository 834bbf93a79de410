"""Simulate a coin's price, which moves by the seed, and serve it as an HTTP price source.

The service reads it over HTTP like any other source.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from florin_server.base.clock import Clock
from florin_server.rails.pricing.settings import (
    HttpPriceSettings,
    HttpSourceSettings,
    PriceSettings,
    PriceSourceSettings,
)

from florin_sandbox.simulation.config import SimulationConfig
from florin_sandbox.simulation.population import DAY_US, HOUR_US, SECOND_US

_STEP_US: Final = 60 * SECOND_US
# moves of currencies against each other, relative to the coin's own moves
_CURRENCIES: Final = 0.1
_SOURCE: Final = "simulated"
_HOST: Final = "127.0.0.1"


class PriceWalk:
    """Prices as random walks of one step a minute; times are microseconds since the start.

    `prices` are the first prices by currency. `jumps_us` is the time when all of them jump, in the
    busy hours of a day in the middle; None without a jump.
    """

    def __init__(self, config: SimulationConfig, prices: Mapping[str, str]) -> None:
        self._prices = {currency: float(price) for currency, price in prices.items()}
        self._sigma = config.volatility / 100 / math.sqrt(DAY_US / _STEP_US)
        self._jump = math.log1p(config.jump / 100)
        self._randoms = {
            currency: _create_random(f"rates {currency}", config) for currency in ("", *prices)
        }
        self._sums: dict[str, list[float]] = {currency: [0.0] for currency in self._randoms}
        self.jumps_us: int | None = None
        if config.jump:
            hour = _create_random("jump", config).uniform(9, 17)
            self.jumps_us = (config.days // 2) * DAY_US + round(hour * HOUR_US)

    def get_price(self, currency: str, at_us: int) -> str:
        """Return the coin's price at a time, as a decimal number."""
        own = _CURRENCIES * self._get_sum(currency, at_us)
        moved = self._sigma * (self._get_sum("", at_us) + own)
        if self.jumps_us is not None and at_us >= self.jumps_us:
            moved += self._jump
        return f"{self._prices[currency] * math.exp(moved):.6f}"

    def _get_sum(self, currency: str, at_us: int) -> float:
        steps, chance = self._sums[currency], self._randoms[currency]
        step = max(0, at_us // _STEP_US)
        while len(steps) <= step:
            steps.append(steps[-1] + chance.gauss(0, 1))
        return steps[step]


def _create_random(subject: str, config: SimulationConfig) -> random.Random:
    return random.Random(f"{subject} {config.seed}")  # noqa: S311  (scenarios, not secrets)


@asynccontextmanager
async def serve_prices(
    config: SimulationConfig, begin_us: int, clock: Clock, asset: str, prices: Mapping[str, str]
) -> AsyncIterator[PriceSettings | None]:
    """Serve the moving prices of an asset (CAIP-19); yield the settings that make a service use it.

    Yield None if the prices do not move. OSError if no port is free.
    """
    if not config.volatility and not config.jump:
        yield None
        return
    walk = PriceWalk(config, prices)

    async def answer(_request: web.Request) -> web.Response:
        at_us = clock.now_us() - begin_us
        return web.json_response({price: walk.get_price(price, at_us) for price in prices})

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, 0).start()
        port = runner.addresses[0][1]
        source = HttpSourceSettings(url=f"http://{_HOST}:{port}/", path=("{quote}",))
        ways: dict[str, tuple[PriceSourceSettings, ...]] = {
            price: (HttpPriceSettings(kind="http", source=_SOURCE, base="coin", quote=price),)
            for price in prices
        }
        yield PriceSettings(http={_SOURCE: source}, pairs={asset: ways})
    finally:
        await runner.cleanup()
