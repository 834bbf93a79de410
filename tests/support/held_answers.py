"""That no answer is held any more."""

from __future__ import annotations

from tests.support.desk import Desk
from tests.support.until import until


async def nothing_held(desk: Desk) -> None:
    """Returns once every held answer was given back, of which nothing tells from outside."""
    await until(lambda: not desk.service.app.limits.held.counted)
