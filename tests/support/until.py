"""Waits for states that raise no event: they are polled until a timeout.

Prefer an event, a count of turns or the test's clock where a test can wait for it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from florin_server.base.clock import TestClock

# only what never becomes true reaches this
PATIENCE_S = 60
# after that, tasks that an advance woke are taken to have ended or to wait for something else
_WORK_S = 2
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


async def advance(clock: TestClock, seconds: float) -> None:
    """Advance a clock, and return once the tasks that it woke wait for it again.

    Workers keep pace on a slow machine, too: payments do not expire between two of their turns.
    """
    sleepers = clock.sleeper_count
    clock.advance(seconds)
    with suppress(AssertionError):
        await wait_until(lambda: clock.sleeper_count >= sleepers, patience_s=_WORK_S)
