"""The last 48 hours of the nodes of all chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.node_hours import HOUR_US, HOURS_KEPT, NodeHour
from florin_server.features.monitoring.store import node_hours
from florin_server.rails.context import ChainContext


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """The observed hours of a node of a chain (CAIP-2), the oldest first."""

    chain_id: str
    name: str
    hours: Sequence[NodeHour]


async def list_node_history(app: _Context) -> list[NodeHistory]:
    """Return the history of each node, in the order of preference."""
    by_node = await app.store.read(node_hours.list_hours(get_first_hour(app.clock.now_us())))
    return [
        NodeHistory(chain_id, state.name, by_node.get((chain_id, state.name), ()))
        for chain_id, rail in app.rails.items()
        for state in rail.nodes.list_states()
    ]


def get_first_hour(now_us: int) -> int:
    """Return the first of the hours that are kept; the last is the current one."""
    return now_us // HOUR_US - HOURS_KEPT + 1
