"""The archive: calendar months of payments, and why a file of it cannot be used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from florin_server.domain.ids import get_payment_id_floor, parse_payment_id_ms

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class ArchiveError(Exception):
    """A file or the folder of the archive cannot be read or written; the message says why."""


class ArchiveMonth(NamedTuple):
    """A calendar month in UTC, as 2026-10, with the ids of the payments that were made in it.

    `first_id` is not above the first id, `end_id` is above the last. `end_us` is the end of the
    month in microseconds since the Unix epoch.
    """

    name: str
    first_id: str
    end_id: str
    end_us: int


def get_month(at_us: int) -> ArchiveMonth:
    """Return the month of a time in microseconds since the Unix epoch."""
    start = (_EPOCH + timedelta(microseconds=at_us)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    end = (start + timedelta(days=32)).replace(day=1)
    start_ms, end_ms = ((time - _EPOCH) // _MILLISECOND for time in (start, end))
    return ArchiveMonth(
        f"{start:%Y-%m}",
        get_payment_id_floor(start_ms),
        get_payment_id_floor(end_ms),
        end_ms * 1000,
    )


def get_month_of_payment(payment_id: str) -> ArchiveMonth:
    """Return the month in which a payment was made; ValueError if the text is not its id."""
    return get_month(parse_payment_id_ms(payment_id) * 1000)


def get_archive_end(now_us: int, payment_days: int) -> ArchiveMonth:
    """Return the first month that is not archived: every earlier one ended days ago."""
    return get_month(now_us - payment_days * 86_400_000_000)
