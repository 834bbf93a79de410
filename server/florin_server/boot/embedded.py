"""What every embedded chain has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Embedded:
    """A running embedded chain: where others ask it, and how this process asks and hears of it."""

    handle: Callable[[bytes], Awaitable[bytes]]
    rpc_url: str
    listen: Callable[[Callable[[], None]], object]  # to new heads
