"""The smallest installation for a rate of payments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from florin_server.domain.capacity.model import (
    DATABASE,
    DISK,
    GAS,
    KEY,
    NODE,
    NOTICES,
    SERVICE,
    VACUUM,
    Costs,
    Demand,
    Installation,
)

# the highest load of a resource in the busiest minute
LOAD_MAX: Final = 0.7
# the most cores of one PostgreSQL before a second installation
DATABASE_CORES_MAX: Final = 64
# how many of each resource an installation has
COUNT_FIELDS: Final[Mapping[str, str]] = {
    SERVICE: "service_cores",
    DATABASE: "database_cores",
    DISK: "databases",
    NOTICES: "databases",
    VACUUM: "vacuum_limits",
    NODE: "nodes",
    KEY: "keys",
    GAS: "chains",
}


@dataclass(frozen=True, slots=True)
class InstallationPlan:
    """An installation for a demand.

    `first_loads` are the loads of the smallest installation in the busiest minute, fullest first.
    """

    demand: Demand
    first_loads: Mapping[str, float]
    installation: Installation

    @property
    def bottleneck(self) -> str:
        """Return the resource that is full first; empty if one of each carries the demand."""
        name, load = next(iter(self.first_loads.items()))
        return name if load > LOAD_MAX else ""


def plan_installation(costs: Costs, demand: Demand, least: Installation) -> InstallationPlan:
    """Return the smallest installation that no minute of the demand's day fills.

    `least` has one of each resource, with its chain and its disk.
    """
    loads = least.loads(costs, demand.peak)
    counts = {name: max(1, math.ceil(load / LOAD_MAX)) for name, load in loads.items()}
    # every chain has its own keys
    counts[KEY] = max(1, math.ceil(counts[KEY] / counts[GAS]))
    counts[DISK] = max(counts[DISK], math.ceil(counts[DATABASE] / DATABASE_CORES_MAX))
    # a database is shared by the resources that it limits
    counts[NOTICES] = counts[DISK] = max(counts[DISK], counts[NOTICES])
    counts[VACUUM] = math.ceil(counts[VACUUM] / counts[DISK])
    changes: dict[str, Any] = {COUNT_FIELDS[name]: count for name, count in counts.items()}
    installation = replace(least, **changes)
    # each process that is added has to be notified, too
    while full := _list_full(installation, costs, demand):
        more = {field: getattr(installation, field) + 1 for field in full}
        installation = replace(installation, **more)
    first = sorted(loads.items(), key=lambda item: item[1], reverse=True)
    return InstallationPlan(demand, dict(first), installation)


def _list_full(installation: Installation, costs: Costs, demand: Demand) -> set[str]:
    """Return the counts that are too small for the busiest minute."""
    loads = installation.loads(costs, demand.peak)
    return {COUNT_FIELDS[name] for name, load in loads.items() if load > LOAD_MAX}
