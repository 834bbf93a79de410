"""Best-effort notifications between the processes of one store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from florin_server.base.clock import Clock

# a notification is shorter than this, in bytes
NOTIFICATION_BYTES_MAX = 8000


class NotificationChannel(Protocol):
    """A channel of texts to every listening process, this one included; texts can get lost.

    Any other client of the store can send texts too.
    """

    async def publish(self, text: str) -> None:
        """Send a text of less than NOTIFICATION_BYTES_MAX bytes; raise StoreError on failure."""

    async def listen(
        self, clock: Clock, on_start: Callable[[], None], on_message: Callable[[str], None]
    ) -> None:
        """Listen until the connection breaks, then raise StoreError.

        `on_start` is called once no later text is missed, `on_message` with each text; neither can
        raise.
        """

    async def close(self) -> None:
        """Close the connection."""
