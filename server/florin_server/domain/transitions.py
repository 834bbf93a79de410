"""State tables: what may happen to a thing in which state, and in which state that leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State")
Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class TransitionTable(Generic[State, Event]):
    """The transitions of one kind of item: for each event the allowed states, and the next state.

    Anything else does not happen, or changes nothing.
    """

    rows: Mapping[Event, Mapping[State, State]]

    def list_sources(self, event: Event) -> tuple[State, ...]:
        """Return the states in which an event may happen."""
        return tuple(self.rows[event])

    def get_target(self, event: Event) -> State:
        """Return the state to which an event always leads.

        ValueError if it depends on the former state.
        """
        row = set(self.rows[event].values())
        if len(row) != 1:
            raise ValueError(f"{event} leads to {len(row)} states")
        return row.pop()

    def get_next_state(self, state: State, event: Event) -> State:
        """Return the state after an event, maybe the same.

        ValueError if the event cannot happen in it.
        """
        try:
            return self.rows[event][state]
        except KeyError:
            raise ValueError(f"{event} cannot happen to what is {state}") from None
