"""How a chain is doing: its conditions as they stand, and since when."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from florin_server.domain.conditions import MEANINGS, Condition, ConditionName, State

# a reason is cut to so many characters: what is wrong with many things at once fills no screen
REASON_MAX: Final = 2000


class Board:
    """The conditions of one part of the service, each with the time since when it stands so.

    There are as many as the part has names, whatever goes wrong.
    """

    def __init__(self, names: Iterable[ConditionName], now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._known = {
            name: Condition(name, State.OK, "", now_us())
            for name in sorted(names, key=list(ConditionName).index)
        }

    def look(
        self,
        wrong: Mapping[ConditionName, Iterable[str]],
        *,
        unknown: Container[ConditionName] = (),
    ) -> tuple[Condition, ...]:
        """All conditions now, given what is wrong, in sentences; empty ones are nothing wrong.

        Those that are `unknown` stay as they are. A name that is none of the part's is a KeyError.
        """
        if strange := wrong.keys() - self._known.keys():
            raise KeyError(*strange)
        for name, known in self._known.items():
            if name in unknown:
                continue
            reason = "; ".join(dict.fromkeys(text for text in wrong.get(name, ()) if text))
            state = MEANINGS[name].state if reason else State.OK
            since_us = known.since_us if state is known.state else self._now_us()
            self._known[name] = Condition(name, state, cut(reason), since_us)
        return tuple(self._known.values())


@dataclass(frozen=True, slots=True)
class Health:
    """How a chain looks to who settles or pays out there.

    `paused` counts accepted payments that wait for a budget of gas, `given_up` those that are not
    sent any more because too many transactions did not pay them. `open_payments` are all that are
    followed to their end, `remembered_events` the settlement events kept in memory for them, and
    `turns` those that the worker has ended since its start.
    """

    head: int
    open_transactions: int
    conditions: tuple[Condition, ...]
    paused: int = 0
    given_up: int = 0
    open_payments: int = 0
    remembered_events: int = 0
    turns: int = 0

    @property
    def problem(self) -> str:
        """What is wrong, for people; empty when all is well."""
        return describe(self.conditions)

    def has(self, name: ConditionName) -> bool:
        """True if a condition of the part is not as it should be."""
        return any(one.name is name and one.state is not State.OK for one in self.conditions)


def describe(conditions: Iterable[Condition]) -> str:
    """What is wrong, for people, no sentence twice; empty when all is well."""
    return "; ".join(dict.fromkeys(one.reason for one in conditions if one.reason))


def cut(reason: str) -> str:
    """Return a reason in `REASON_MAX` characters at most."""
    return reason if len(reason) <= REASON_MAX else f"{reason[: REASON_MAX - 1]}…"
