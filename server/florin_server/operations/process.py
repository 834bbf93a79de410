"""The state of this process: its name, its failed workers, and its reach of the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from florin_server.db.engine.partitions import STRAY_MAX, PartitionStatus

# a failed worker counts as failing for this long; it waits less than this before it restarts
WORKER_FAILED_US: Final = 300_000_000
# a failover of the database ends sooner, and no load balancer should remove every process for it
_UNREADY_US: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """The newest unexpected end of a worker: when, how often since it worked, and why."""

    at_us: int
    count: int
    reason: str


@dataclass(slots=True)
class WorkerFailures:
    """Workers of this process that failed unexpectedly; there are as many as it has workers."""

    by_worker: dict[str, WorkerFailure] = field(default_factory=dict)

    def describe(self, now_us: int) -> list[str]:
        """Return a sentence for each worker that failed lately."""
        return [
            f"{name} failed {failure.count} times and is restarted: {failure.reason}"
            for name, failure in self.by_worker.items()
            if now_us - failure.at_us < WORKER_FAILED_US
        ]


@dataclass(slots=True)
class StoreHealth:
    """The process's reach of its store: the problem, and since when (steady µs)."""

    problem: str = ""
    failing_since_us: int | None = None

    def record(self, problem: str, steady_us: int) -> None:
        """Remember how the newest look ended; an empty problem is an answer."""
        self.problem = problem
        if not problem:
            self.failing_since_us = None
        elif self.failing_since_us is None:
            self.failing_since_us = steady_us

    def describe_unready(self, steady_us: int) -> str:
        """Return why the process should get no calls; empty within seconds of the last answer."""
        since_us = self.failing_since_us
        return self.problem if since_us is not None and steady_us - since_us >= _UNREADY_US else ""


@dataclass(frozen=True, slots=True)
class ProcessName:
    """The name under which a process reports conditions of its own.

    `source` is unique, `host` its machine; `label` names it in sentences, empty where it is alone.
    """

    source: str = "process"
    host: str = "localhost"
    label: str = ""


@dataclass(slots=True)
class PartitionHealth:
    """The faults of the partitions of payments, in sentences; empty without partitions."""

    missing: tuple[str, ...] = ()
    stray_rows: tuple[str, ...] = ()

    def record(self, status: PartitionStatus | None) -> None:
        """Remember the newest state of the partitions."""
        status = status or PartitionStatus()
        self.missing = status.missing
        self.stray_rows = tuple(
            f"{name} has {f'at least {STRAY_MAX}' if count == STRAY_MAX else count} rows"
            for name, count in status.stray_rows.items()
        )


@dataclass(slots=True)
class EventSinkHealth:
    """The newest problem of publishing events in this process; empty while all are published.

    `difference` says how its settings of the sink differ from the installation's.
    """

    problem: str = ""
    difference: str = ""
