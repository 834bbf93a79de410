"""A broker that stores events, and the ways in which it can fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from florin_server.domain.webhooks.snapshot import PaymentSnapshot

# writes the body of an event
EventEncoder: TypeAlias = Callable[[PaymentSnapshot], bytes]


class BrokerUnavailable(Exception):  # noqa: N818  (a state of the world, which passes)
    """The broker cannot be reached, or the connection to it is lost: nothing can be published."""


class EventNotStored(Exception):  # noqa: N818  (likewise)
    """The broker answers, but did not acknowledge an event: it can be published later."""


class EventRefused(Exception):  # noqa: N818  (a state of the event)
    """The broker will never store this event."""


class EventBroker(Protocol):
    """A connection to a broker."""

    @property
    def is_connected(self) -> bool:
        """Return False once the connection is lost."""

    async def wait_lost(self) -> None:
        """Return once the connection is lost, at once if it is."""

    async def publish(self, subject: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Return once the broker has stored a message.

        Raise BrokerUnavailable as soon as the connection is lost, EventNotStored or EventRefused.
        """

    async def close(self) -> None:
        """Close the connection."""


# BrokerUnavailable if no host of the broker accepts the connection
ConnectBroker: TypeAlias = Callable[[], Awaitable[EventBroker]]
