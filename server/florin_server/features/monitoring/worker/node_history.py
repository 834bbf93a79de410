"""Writes what this process observes of the nodes of chains, once a minute."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import StoreError
from florin_server.domain.node_hours import HOUR_US, NodeActivity
from florin_server.features.monitoring.service.node_history import get_first_hour
from florin_server.features.monitoring.store import node_hours
from florin_server.features.monitoring.store.node_hours import NodeHourKey
from florin_server.rails.context import ChainContext


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_CHECK_S: Final = 5.0
_WRITE_US: Final = 60_000_000


class NodeHistoryWorker:
    """Checks every node each five seconds, and adds to its hours in the store each minute."""

    def __init__(self, app: _Context) -> None:
        self._app = app
        # at most one for each node and hour that is kept
        self._pending: dict[NodeHourKey, NodeActivity] = {}
        self._write_at_us = app.clock.steady_us() + _WRITE_US

    async def run(self) -> None:
        """Work until canceled."""
        while True:
            checked_us = self._app.clock.now_us()
            self.check()
            if self._app.clock.steady_us() >= self._write_at_us:
                await self._write()
            await sleep_remaining(self._app.clock, _CHECK_S, checked_us)

    def check(self) -> None:
        """Check every node, and take what was observed since the last check."""
        hour = self._app.clock.now_us() // HOUR_US
        for chain_id, rail in self._app.rails.items():
            rail.nodes.record_checks()
            for node, activity in rail.nodes.take_activities().items():
                if activity.is_empty:
                    continue
                key = NodeHourKey(chain_id, node, hour)
                self._pending.setdefault(key, NodeActivity()).add(activity)

    async def write(self) -> None:
        """Add what is pending to the store; raise StoreError and keep it if that fails."""
        first_hour = get_first_hour(self._app.clock.now_us())
        pending, self._pending = self._pending, {}
        try:
            if pending:
                await self._app.store.write(node_hours.add(pending, first_hour))
        except StoreError:
            self._pending = {
                key: activity for key, activity in pending.items() if key.hour >= first_hour
            }
            raise

    async def _write(self) -> None:
        self._write_at_us = self._app.clock.steady_us() + _WRITE_US
        try:
            await self.write()
        except StoreError as error:
            _log.debug("the hours of nodes could not be written: %s", error)
