"""The calendar month or year of a report, in a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_PERIOD: Final = re.compile(r"([0-9]{4})(?:-(0[1-9]|1[0-2]))?", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,32}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)
_YEARS: Final = range(2000, 3000)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ReportPeriod:
    """A month ("2026-10") or a year ("2026") in a time zone, from `start_us` until `end_us`.

    Both are microseconds since the Unix epoch; the end is not included.
    """

    name: str
    zone: str
    start_us: int
    end_us: int

    @property
    def first_day(self) -> date:
        """Return the first day."""
        return self.to_day(self.start_us)

    @property
    def last_day(self) -> date:
        """Return the last day."""
        return self.to_day(self.end_us - 1)

    def to_day(self, at_us: int) -> date:
        """Return the day of a time in the zone of the period."""
        return (_EPOCH + at_us * _MICROSECOND).astimezone(ZoneInfo(self.zone)).date()

    def is_over(self, now_us: int) -> bool:
        """Return whether the period has ended, so that nothing is booked in it any more."""
        return now_us >= self.end_us


def parse_period(text: str, zone: str = "UTC") -> ReportPeriod:
    """Return a month or a year; ValueError, with what is wrong, for other texts or zones."""
    match = _PERIOD.fullmatch(text)
    if match is None or int(match[1]) not in _YEARS:
        raise ValueError("the month must be as 2026-10, or a year as 2026")
    year, month = int(match[1]), int(match[2] or 1)
    end = (year + 1, 1) if match[2] is None or month == 12 else (year, month + 1)
    loaded = _load_zone(zone)
    return ReportPeriod(
        text,
        zone,
        _to_us(datetime(year, month, 1, tzinfo=loaded)),
        _to_us(datetime(*end, 1, tzinfo=loaded)),
    )


def get_previous_month(now_us: int) -> str:
    """Return the month before the present one in UTC, such as "2026-10"."""
    first = (_EPOCH + now_us * _MICROSECOND).date().replace(day=1)
    return (first - timedelta(days=1)).strftime("%Y-%m")


def get_month(now_us: int) -> str:
    """Return the present month in UTC, such as "2026-10"."""
    return (_EPOCH + now_us * _MICROSECOND).strftime("%Y-%m")


def _load_zone(name: str) -> ZoneInfo:
    try:
        if not _ZONE.fullmatch(name):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(
            f"unknown time zone {name[:40]!r}: use a name such as Europe/Berlin"
        ) from error


def _to_us(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
