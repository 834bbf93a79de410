"""Failure handling of workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

from florin_server.rails.types import RailUnavailable


async def catch_unavailable(work: Awaitable[None]) -> RailUnavailable | None:
    """Yield an error holder for work with a chain; it is None if the chain could be used."""
    try:
        await work
    except RailUnavailable as error:
        return error
    return None


async def run_together(*works: Coroutine[Any, Any, None]) -> None:
    """Run works that never end; when one ends, cancel the others, and raise its error if it failed.

    A restart therefore finds none of them left over.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
