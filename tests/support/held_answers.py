"""That no answer is held any more."""

from __future__ import annotations

import asyncio

from tests.support.desk import Desk


async def nothing_held(desk: Desk) -> None:
    """Returns once every held answer was given back, of which nothing tells from outside."""
    for _ in range(2000):
        if not desk.service.app.limits.held.counted:
            return
        await asyncio.sleep(0.001)
    raise AssertionError
