"""Calendar months in UTC of payments, whose ids begin with their time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from florin_server.domain.ids import find_payment_id_ms, get_payment_id_floor

# the last year of calendars
_MS_END: Final = 253_370_764_800_000


def get_month(now_us: int) -> int:
    """Return the number of the month of a time: months since the year 0."""
    now = datetime.fromtimestamp(now_us / 1_000_000, UTC)
    return now.year * 12 + now.month - 1


def format_month(month: int) -> str:
    """Return a month as `2026-09`."""
    return f"{month // 12}-{month % 12 + 1:02}"


def get_start_us(month: int) -> int:
    """Return the start of a month in microseconds since the Unix epoch."""
    start = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return int(start.timestamp()) * 1_000_000


def get_first_id(month: int) -> str:
    """Return a text between the payment ids before a month and those from it on."""
    return get_payment_id_floor(get_start_us(month) // 1000)


def find_month(payment_id: str) -> int | None:
    """Return the month of a payment id, or None if it has no time before the year 9999."""
    ms = find_payment_id_ms(payment_id)
    if ms is None or ms >= _MS_END:
        return None
    return get_month(ms * 1000)
