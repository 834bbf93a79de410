"""A cache of entities, for a store with a single writing process."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

# a few KiB each at most, the limit of what merchants can write into a payment
ENTITIES_MAX = 4_096


class Entity(Protocol):
    """Something with an id."""

    @property
    def id(self) -> str:
        """Return the id."""


E = TypeVar("E", bound=Entity)


class EntityCache(Generic[E]):
    """Entities as last committed, at most `capacity`; the oldest entry is dropped first.

    A writer reports a change before its commit, and reports when its transaction is over, however
    it ended. In between, readers still see the old entity, and the cache keeps nothing of it. The
    cache therefore always equals the store.
    """

    def __init__(self, capacity: int = ENTITIES_MAX) -> None:
        self._capacity = capacity
        self._entities: dict[str, E] = {}
        self._changing: set[str] = set()
        # the number of changes
        self.changes = 0

    def __len__(self) -> int:
        return len(self._entities)

    def find(self, entity_id: str) -> E | None:
        """Return the entity if it is cached and unchanged; None otherwise."""
        return self._entities.get(entity_id)

    def put(self, entity: E, changes: int) -> None:
        """Cache an entity that was read, unless any change came after `changes`."""
        if changes != self.changes or entity.id in self._changing:
            return
        if entity.id not in self._entities and len(self._entities) >= self._capacity:
            del self._entities[next(iter(self._entities))]
        self._entities[entity.id] = entity

    def invalidate(self, entity_id: str) -> None:
        """Record that an open transaction has changed an entity."""
        self.changes += 1
        self._changing.add(entity_id)
        self._entities.pop(entity_id, None)

    def end_transaction(self) -> None:
        """Record that the transaction is committed or rolled back."""
        self._changing.clear()
