"""Failed sign-ins are counted so that no stranger can fill the audit log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from florin_server.base.clock import TestClock
from florin_server.operations.service import sign_in_failures
from florin_server.operations.service.sign_in_failures import (
    ADDRESSES_MAX,
    ENTRIES_PER_HOUR,
    SignInFailures,
)

HOUR_S = 3600


@pytest.fixture
def entries(monkeypatch) -> list:
    """Return what is recorded: the addresses and the numbers."""
    recorded: list = []

    async def record(app, changes, actor):
        recorded.extend((actor.peer, change.count) for change in changes)

    monkeypatch.setattr(sign_in_failures, "record_now", record)
    return recorded


def make_app() -> SimpleNamespace:
    return SimpleNamespace(clock=TestClock(1_800_000_000_000_000))


async def test_failures_of_a_minute_are_one_entry_by_address(entries):
    failures = SignInFailures()
    for address in ("192.0.2.7", "192.0.2.7", "192.0.2.8"):
        failures.count("operator", address)
    await failures.flush(make_app())
    await failures.flush(make_app())
    assert entries == [("192.0.2.7", 2), ("192.0.2.8", 1)]


async def test_a_flood_from_many_addresses_adds_few_entries_and_counts_all(entries):
    failures, app = SignInFailures(), make_app()
    for minute in range(120):
        for number in range(1000):
            failures.count("merchant", f"2001:db8::{minute:x}:{number:x}")
        assert len(failures._counts) <= ADDRESSES_MAX + 1  # noqa: SLF001  (its memory)
        await failures.flush(app)
        app.clock.advance(60)
    # one for each minute beyond the detailed ones, in each of two or three hours
    assert len(entries) <= 3 * (ENTRIES_PER_HOUR + 60)
    assert sum(count for _, count in entries) == 120 * 1000
    # the next quiet hour has its addresses again
    app.clock.advance(HOUR_S)
    failures.count("merchant", "192.0.2.9")
    await failures.flush(app)
    assert entries[-1] == ("192.0.2.9", 1)
