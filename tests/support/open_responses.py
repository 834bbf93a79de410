"""Answers that are kept waiting, which no API reports."""

from __future__ import annotations

from florin_server.limits.service.stream_limits import StreamLimits

from tests.support.service_harness import ServiceHarness
from tests.support.until import wait_until


def has_counted(streams: StreamLimits) -> bool:
    """Return True while any counted call is open."""
    return any(places.counts for places in streams.slots)


def count_followed_payouts(desk: ServiceHarness) -> int:
    """Return how many streams follow a payout."""
    return desk.service.app.notifier.payouts.follower_count


async def wait_no_open_responses(desk: ServiceHarness) -> None:
    """Return once all waiting answers have been released."""
    await wait_until(lambda: not has_counted(desk.service.app.limits.streams))
