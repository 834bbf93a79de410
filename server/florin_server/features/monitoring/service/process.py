"""The state of one process in numbers that need no store, available during its outage."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.db.engine.store import PoolUse
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Facts known at the start of the process only.

    `restarts` is how often its supervisor has restarted it after it died, None without a
    supervisor; `certificate_until_s` is the end of the current certificate, seconds since the Unix
    epoch, None for plain text.
    """

    restarts: int | None = None
    certificate_until_s: float | None = None


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The file system of the state folder, in bytes."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """Numbers of one process at one moment.

    `leases` says for each executor (CAIP-10) whether this process has its lease; `node_calls` are
    counts since the start by chain and method; `disk` is None if it cannot be read.
    """

    facts: ProcessFacts
    pools: Mapping[str, PoolUse]
    leases: Mapping[str, bool]
    node_calls: Mapping[tuple[str, str], int]
    disk: DiskSpace | None


def read_process_snapshot(app: _Context, facts: ProcessFacts) -> ProcessSnapshot:
    """Read the numbers of this process."""
    return ProcessSnapshot(
        facts=facts,
        pools=app.store.pools,
        leases={account: sender.has_lease for account, sender in app.executors.items()},
        node_calls={
            (chain_id, method): count
            for chain_id, rail in app.rails.items()
            for method, count in rail.nodes.calls_by_method.items()
        },
        disk=_read_disk_space(app),
    )


def _read_disk_space(app: SettingsContext) -> DiskSpace | None:
    try:
        ntuple_diskusage = shutil.disk_usage(app.settings.home)
    except OSError:
        return None
    return DiskSpace(ntuple_diskusage.free, ntuple_diskusage.total)
