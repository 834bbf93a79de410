"""The schedule of retries of deliveries, and their end."""

from __future__ import annotations

import zlib
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_SECOND_US: Final = 1_000_000
# then every twelve hours, until the time is up
_DELAYS_S: Final = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200)
# this many failures in a row are the endpoint's fault, not a payment's: it rests for a while
FAILING_AFTER: Final = 5
_PAUSES_S: Final = (5, 15, 60, 300, 900)
_DATE_CHARS: Final = 40
# no wait is longer: a longer one was written by a clock that was ahead
DELAY_MAX_US: Final = 2 * _DELAYS_S[-1] * _SECOND_US


def get_retry_delay_us(attempts: int, key: str) -> int:
    """Return the wait after so many attempts, with up to a tenth more, constant for a key.

    Many deliveries that fail together are thus retried at different times.
    """
    delay_us = _DELAYS_S[min(attempts, len(_DELAYS_S)) - 1] * _SECOND_US
    return delay_us + delay_us * (zlib.crc32(f"{key}:{attempts}".encode()) % 1000) // 10_000


def get_pause_us(failures: int, requested_us: int = 0) -> int:
    """Return how long an endpoint rests after so many failures in a row.

    It is longer if the endpoint asked for that, up to the wait of an endpoint that keeps failing.
    """
    requested_us = min(requested_us, _PAUSES_S[-1] * _SECOND_US)
    if failures < FAILING_AFTER:
        return requested_us
    return max(
        requested_us, _PAUSES_S[min(failures - FAILING_AFTER, len(_PAUSES_S) - 1)] * _SECOND_US
    )


def parse_retry_after_us(retry_after: str, now_s: float) -> int:
    """Return the wait in a `Retry-After` header (RFC 9110, 10.2.3): seconds, or until a date.

    It is no longer than the schedule ever waits; 0 for other texts, and for a time in the past.
    """
    text = retry_after.strip()
    seconds = text.isascii() and text.isdecimal()
    wait_s = float(text) if seconds else _parse_http_date(text) - now_s
    return int(max(0.0, min(wait_s, _DELAYS_S[-1])) * _SECOND_US)


def _parse_http_date(text: str) -> float:
    """Return the time of a date in seconds since the epoch; 0 for what is none."""
    try:
        at = parsedate_to_datetime(text if len(text) <= _DATE_CHARS else "")
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
