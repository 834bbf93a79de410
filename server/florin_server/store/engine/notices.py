"""How processes that have one store tell each other something, without any promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from florin_server.clock import Clock

# a notice is shorter than this, in bytes
NOTICE_MAX = 8000


class Notices(Protocol):
    """Texts go to every process that listens just then, this one too; they may get lost.

    Whoever else has access to the store may send any.
    """

    async def tell(self, text: str) -> None:
        """Sends a text of less than NOTICE_MAX bytes; StoreError if it could not be."""

    async def listen(
        self, clock: Clock, began: Callable[[], None], heard: Callable[[str], None]
    ) -> None:
        """Listens until the connection breaks, which is a StoreError.

        `began` is called when nothing is missed from then on, `heard` with each text; neither may
        raise.
        """

    async def close(self) -> None:
        """Takes leave of the server."""
