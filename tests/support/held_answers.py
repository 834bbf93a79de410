"""Waits until no answer is kept waiting."""

from __future__ import annotations

from tests.support.desk import ServiceHarness
from tests.support.until import wait_until


async def wait_no_open_responses(desk: ServiceHarness) -> None:
    """Return once all waiting answers have been released, which no API reports."""
    await wait_until(lambda: not desk.service.app.limits.streams.has_counted)
