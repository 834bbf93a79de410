"""How workers take what fails."""

from __future__ import annotations

from collections.abc import Awaitable

from florin_server.rails.types import RailUnavailable


async def fault_of(work: Awaitable[None]) -> RailUnavailable | None:
    """Why a chain could not be worked with; None if it could."""
    try:
        await work
    except RailUnavailable as error:
        return error
    return None
