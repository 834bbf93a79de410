"""Waits for states that raise no event: they are polled until a timeout.

Prefer an event, a count of turns or the test's clock where a test can wait for it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 20
# between two polls; longer where `meanwhile` changes the state, and others have to react
LOOK_S, MOVE_S = 0.01, 0.02

_ANY_TRUE = object()


async def wait_until(
    look: Callable[[], Any],
    expected: object = _ANY_TRUE,
    *,
    meanwhile: Callable[[], Awaitable[object]] | None = None,
    patience_s: float = PATIENCE_S,
) -> Any:
    """Return the result of `look`, once it equals `expected`, or is true by default.

    `meanwhile` runs before each further poll.
    """
    result: Any = None
    try:
        async with asyncio.timeout(patience_s):
            while True:
                result = look()
                if inspect.isawaitable(result):
                    result = await result
                if result == expected or (expected is _ANY_TRUE and result):
                    return result
                if meanwhile is not None:
                    await meanwhile()
                await asyncio.sleep(LOOK_S if meanwhile is None else MOVE_S)
    except TimeoutError:
        raise AssertionError(f"not so within {patience_s} s; found last: {result!r}") from None
