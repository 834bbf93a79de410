"""Reports conditions into the store, where every process reads them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.conditions import ConditionState
from florin_server.domain.errors import ApiError
from florin_server.features.monitoring.service import conditions, runways
from florin_server.features.monitoring.service.conditions import ProcessReport
from florin_server.features.monitoring.service.health import ProbeScope
from florin_server.money.archive.context import ArchiveContext
from florin_server.operations.context import OperationsContext, WorkerContext
from florin_server.operations.store import conditions as stored
from florin_server.operations.store.conditions import ConditionKey
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    OperationsContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_INTERVAL_S: Final = 5.0
# rounds between two that call nodes, which cost money even where nothing is paid
_NODES_INTERVAL: Final = 12
# a process with a condition confirms this often that it lives
_HEARTBEAT_US: Final = stored.ALIVE_US // 3


class _WrittenReport(NamedTuple):
    """The last report, and its time (steady µs)."""

    epoch: int | None
    states: Mapping[ConditionKey, tuple[ConditionState, str]]
    at_us: int


class ConditionReportWorker:
    """Writes what changed: of the leases that this process holds, and of itself."""

    def __init__(self, app: _Context) -> None:
        self._app = app
        self._written_reports: dict[str, _WrittenReport] = {}
        self._report_count = 0

    async def run(self) -> None:
        """Work until canceled."""
        while True:
            looked_us = self._app.clock.now_us()
            try:
                await self.report()
            except (StoreError, ApiError) as error:
                _log.debug("conditions could not be reported: %s", error)
            await sleep_remaining(self._app.clock, _INTERVAL_S, looked_us)

    async def report(self) -> None:
        """Look once and write what changed; StoreError if the store is away."""
        sight = ProbeScope(includes_nodes=self._report_count % _NODES_INTERVAL == 0)
        self._report_count += 1
        await runways.refresh_short_runways(self._app)
        local_conditions = await conditions.list_local_conditions(self._app, sight)
        for report in conditions.list_own_reports(self._app, local_conditions):
            await self._write(report)

    async def _write(self, report: ProcessReport) -> None:
        source = report.source
        states = {
            key: (condition.state, condition.reason) for key, condition in report.conditions.items()
        }
        steady_us = self._app.clock.steady_us()
        before = self._written_reports.get(source.name)
        if before is not None and (before.epoch, before.states) == (source.epoch, states):
            is_lasting = source.epoch is not None or not states
            if is_lasting or steady_us - before.at_us < _HEARTBEAT_US:
                return
        now_us = self._app.clock.now_us()
        if await self._app.store.write(
            stored.report(source, report.conditions, now_us, report.unknown_keys)
        ):
            self._written_reports[source.name] = _WrittenReport(source.epoch, states, steady_us)
