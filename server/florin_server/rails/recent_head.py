"""The head of a chain that another process settles, for calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from florin_server.rails.connection.coalesce import SharedRequests
from florin_server.rails.roles import ChainObserver

_RECENT_US: Final = 2_000_000


class RecentHead:
    """Read a chain's head once in two seconds for all callers.

    The process that settles reads each new head anyway. In the others, each offer and each
    confirmation would be a call to the nodes.
    """

    def __init__(self) -> None:
        self._requests: SharedRequests[int] = SharedRequests()
        self._cached: tuple[int, int] | None = None

    async def get(self, observer: ChainObserver, steady_us: Callable[[], int]) -> int:
        """Return the head or one of the last two seconds; RailUnavailable if it is unknown."""
        now_us = steady_us()
        if self._cached is None or now_us - self._cached[0] >= _RECENT_US:
            # of the time before the read
            self._cached = now_us, await self._requests("head", lambda: _read_head(observer))
        return self._cached[1]


async def _read_head(observer: ChainObserver) -> int:
    return (await observer.get_head()).number
