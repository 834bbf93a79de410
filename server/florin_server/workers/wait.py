"""How workers rest between their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from florin_server.rails.types import RailUnavailable


async def first_of(*waits: Coroutine[Any, Any, object], seconds: float | None = None) -> None:
    """Returns when the first of several waits is over, or after a time; ends the others."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def fault_of(work: Awaitable[None]) -> RailUnavailable | None:
    """Why a chain could not be worked with; None if it could."""
    try:
        await work
    except RailUnavailable as error:
        return error
    return None
