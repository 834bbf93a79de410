"""Reports conditions into the store, where every process reads them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from florin_server.clock import rest
from florin_server.domain.conditions import State
from florin_server.domain.errors import FlorinError
from florin_server.flows.app import App
from florin_server.flows.operator import conditions
from florin_server.flows.operator.conditions import OwnReport
from florin_server.flows.operator.health import Sight
from florin_server.store.engine.query import StoreError
from florin_server.store.operator import conditions as stored
from florin_server.store.operator.conditions import Key

_log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
# looks between two that ask nodes: these cost money, also where nobody pays
_NODES_EVERY: Final = 12
# a process says again that it lives while something is wrong with it
_ALIVE_EVERY_US: Final = stored.ALIVE_US // 3


class _Written(NamedTuple):
    """What was reported last, and when (steady µs)."""

    epoch: int | None
    states: Mapping[Key, tuple[State, str]]
    at_us: int


class ConditionReporter:
    """Writes what changed: of the leases that this process holds, and of itself."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._written: dict[str, _Written] = {}
        self._looks = 0

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            looked_us = self._app.clock.now_us()
            try:
                await self.report()
            except (StoreError, FlorinError) as error:
                _log.debug("conditions are not reported: %s", error)
            await rest(self._app.clock, _EVERY_S, looked_us)

    async def report(self) -> None:
        """Look once and write what changed; StoreError if the store is away."""
        sight = Sight(nodes=self._looks % _NODES_EVERY == 0)
        self._looks += 1
        found = await conditions.look(self._app, sight)
        for one in conditions.own_reports(self._app, found):
            await self._write(one)

    async def _write(self, report: OwnReport) -> None:
        source = report.source
        states = {key: (one.state, one.reason) for key, one in report.found.items()}
        steady_us = self._app.clock.steady_us()
        before = self._written.get(source.name)
        if before is not None and (before.epoch, before.states) == (source.epoch, states):
            is_lasting = source.epoch is not None or not states
            if is_lasting or steady_us - before.at_us < _ALIVE_EVERY_US:
                return
        now_us = self._app.clock.now_us()
        if await self._app.store.write(stored.report(source, report.found, now_us, report.unknown)):
            self._written[source.name] = _Written(source.epoch, states, steady_us)
