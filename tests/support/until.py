"""Waits for what nothing tells of: it is looked at again and again, as long as a test has patience.

Where an event, a count of turns or the test's clock can be waited for, that is better.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 20
# between two looks; longer where the world is moved on between them, and somebody has to follow
LOOK_S, MOVE_S = 0.01, 0.02

_ANYTHING = object()


async def until(
    look: Callable[[], Any],
    wanted: object = _ANYTHING,
    *,
    meanwhile: Callable[[], Awaitable[object]] | None = None,
    patience_s: float = PATIENCE_S,
) -> Any:
    """What a look finds, once it is what is wanted, or true where nothing else is said.

    `meanwhile` is done before each further look.
    """
    found: Any = None
    try:
        async with asyncio.timeout(patience_s):
            while True:
                found = look()
                if inspect.isawaitable(found):
                    found = await found
                if found == wanted or (wanted is _ANYTHING and found):
                    return found
                if meanwhile is not None:
                    await meanwhile()
                await asyncio.sleep(LOOK_S if meanwhile is None else MOVE_S)
    except TimeoutError:
        raise AssertionError(f"not so within {patience_s} s; found last: {found!r}") from None
