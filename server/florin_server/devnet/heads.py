"""Who wants to hear of new heads of an embedded chain, in this process or through a socket."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Heads:
    """Tells listeners that the head changed; used on the event loop."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._head: Hashable = None

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls the listener at each change; gives back what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def wanted(self) -> bool:
        """True if anybody listens."""
        return bool(self._listeners)

    def at(self, head: Hashable) -> None:
        """The head is this one now."""
        if head != self._head:
            self._head = head
            for listener in list(self._listeners):
                listener()
