"""State tables: what may happen to a thing in which state, and in which state that leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State")
Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Transitions(Generic[State, Event]):
    """The table of one kind of thing: for each event the states that it may meet, and what follows.

    What is not in it does not happen, or changes nothing where it is asked for.
    """

    rows: Mapping[Event, Mapping[State, State]]

    def sources(self, event: Event) -> tuple[State, ...]:
        """The states in which an event may happen."""
        return tuple(self.rows[event])

    def target(self, event: Event) -> State:
        """The state that an event always leads to; ValueError if that depends on where it was."""
        found = set(self.rows[event].values())
        if len(found) != 1:
            raise ValueError(f"{event} leads to {len(found)} states")
        return found.pop()

    def after(self, state: State, event: Event) -> State:
        """The state after an event, maybe the same; ValueError if it cannot happen in this one."""
        try:
            return self.rows[event][state]
        except KeyError:
            raise ValueError(f"{event} cannot happen to what is {state}") from None
