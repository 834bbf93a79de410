"""The health of a chain: its conditions, each with its start time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from florin_server.domain.conditions import (
    CONDITION_SPECS,
    Condition,
    ConditionName,
    ConditionState,
)

# a reason is cut to this length, so that many faults do not fill a screen
REASON_MAX: Final = 2000


class ConditionTracker:
    """The conditions of one part of the service, each with the start time of its state.

    There is one for each name of the part, for any number of faults.
    """

    def __init__(self, names: Iterable[ConditionName], now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._conditions = {
            name: Condition(name, ConditionState.OK, "", now_us())
            for name in sorted(names, key=list(ConditionName).index)
        }

    def update(
        self,
        problems: Mapping[ConditionName, Iterable[str]],
        *,
        unknown: Container[ConditionName] = (),
    ) -> tuple[Condition, ...]:
        """Return all conditions now, from the sentences about faults.

        An empty sentence is no fault. Conditions in `unknown` keep their state. A name of another
        part raises KeyError.
        """
        if strange := problems.keys() - self._conditions.keys():
            raise KeyError(*strange)
        for name, condition in self._conditions.items():
            if name in unknown:
                continue
            reason = "; ".join(dict.fromkeys(text for text in problems.get(name, ()) if text))
            state = CONDITION_SPECS[name].state if reason else ConditionState.OK
            since_us = condition.since_us if state is condition.state else self._now_us()
            self._conditions[name] = Condition(name, state, truncate_reason(reason), since_us)
        return tuple(self._conditions.values())


@dataclass(frozen=True, slots=True)
class ChainHealth:
    """The state of a chain, as seen by the worker that settles or pays out there.

    `paused_payments` counts accepted payments that wait for a budget of gas. `given_up_payments`
    counts those no longer sent because too many transactions failed to pay them. `open_payments`
    counts all payments that the worker follows to their end, `remembered_events` the settlement
    events kept in memory for them, and `turn_count` the turns that the worker has completed since
    its start.
    """

    head: int
    open_transactions: int
    conditions: tuple[Condition, ...]
    paused_payments: int = 0
    given_up_payments: int = 0
    open_payments: int = 0
    remembered_events: int = 0
    turn_count: int = 0

    @property
    def problem(self) -> str:
        """Return the faults in a sentence for people; empty if there are none."""
        return describe_conditions(self.conditions)


def describe_conditions(conditions: Iterable[Condition]) -> str:
    """Return the faults for people, each sentence once; empty if there are none."""
    return "; ".join(
        dict.fromkeys(condition.reason for condition in conditions if condition.reason)
    )


def truncate_reason(reason: str) -> str:
    """Return a reason in `REASON_MAX` characters at most."""
    return reason if len(reason) <= REASON_MAX else f"{reason[: REASON_MAX - 1]}…"
