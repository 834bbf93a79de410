"""What one process is doing, in numbers that need no store: they are told while it is away."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from florin_server.flows.app import App
from florin_server.store.engine.store import PoolUse


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What only the start of the process knows.

    `restarts` is how often its supervisor has started it again after it died, None without one;
    `certificate_until_s` is when the certificate that is shown ends, seconds since the Unix epoch,
    None for plain text.
    """

    restarts: int | None = None
    certificate_until_s: float | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of the state folder, in bytes."""

    free: int
    size: int


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Numbers of one process at one moment.

    `leases` tells of each executor (CAIP-10) whether this process has its lease; `node_calls` are
    counts since the start by chain and method; `disk` is None if it cannot be read.
    """

    facts: ProcessFacts
    pools: Mapping[str, PoolUse]
    leases: Mapping[str, bool]
    node_calls: Mapping[tuple[str, str], int]
    disk: Disk | None


def read_process(app: App, facts: ProcessFacts) -> ProcessFigures:
    """Read the numbers of this process."""
    return ProcessFigures(
        facts=facts,
        pools=app.store.pools,
        leases={account: sender.leads for account, sender in app.executors.items()},
        node_calls={
            (chain_id, method): count
            for chain_id, rail in app.rails.items()
            for method, count in rail.nodes.calls_by_method.items()
        },
        disk=_disk(app),
    )


def _disk(app: App) -> Disk | None:
    try:
        found = shutil.disk_usage(app.settings.home)
    except OSError:
        return None
    return Disk(found.free, found.total)
