"""Listeners for new heads of an embedded chain, in this process or through a socket."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class HeadListeners:
    """Notify listeners of a changed head; used on the event loop."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._head: Hashable = None

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener at each change; return the function that ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def has_listeners(self) -> bool:
        """Return True if there is any listener."""
        return bool(self._listeners)

    def record_head(self, head: Hashable) -> None:
        """Set the current head."""
        if head != self._head:
            self._head = head
            for listener in list(self._listeners):
                listener()
