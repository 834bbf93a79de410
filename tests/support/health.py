"""The health of a worker: its conditions."""

from __future__ import annotations

from florin_server.domain.conditions import ConditionName, ConditionState
from florin_server.domain.health import ChainHealth


def has_condition(health: ChainHealth, name: ConditionName) -> bool:
    """Return True if a condition of the worker is not as it should be."""
    return any(
        condition.name is name and condition.state is not ConditionState.OK
        for condition in health.conditions
    )
