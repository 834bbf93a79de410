"""When what could not be delivered is tried again, and when that is over."""

from __future__ import annotations

import zlib
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_SECOND_US: Final = 1_000_000
# then every twelve hours, until the time is up
_DELAYS_S: Final = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200)
# so many failures in a row are the endpoint's, not a payment's: it is left alone for a while
FAILING: Final = 5
_ALONE_S: Final = (5, 15, 60, 300, 900)
_DATE_CHARS: Final = 40
# nothing waits for longer: what seems to was written by a clock that was ahead
LONGEST_US: Final = 2 * _DELAYS_S[-1] * _SECOND_US


def retry_after_us(attempts: int, key: str) -> int:
    """How long to wait after so many attempts, with up to a tenth more, always the same for a key.

    Of many that fail together each comes back at a time of its own.
    """
    delay_us = _DELAYS_S[min(attempts, len(_DELAYS_S)) - 1] * _SECOND_US
    return delay_us + delay_us * (zlib.crc32(f"{key}:{attempts}".encode()) % 1000) // 10_000


def rest_us(failures: int, asked_us: int = 0) -> int:
    """For how long an endpoint is left alone after so many failures in a row.

    For longer if it asked for that, but for no longer than one that keeps failing.
    """
    asked_us = min(asked_us, _ALONE_S[-1] * _SECOND_US)
    if failures < FAILING:
        return asked_us
    return max(asked_us, _ALONE_S[min(failures - FAILING, len(_ALONE_S) - 1)] * _SECOND_US)


def asked_us(retry_after: str, now_s: float) -> int:
    """What a `Retry-After` header asks to wait for (RFC 9110, 10.2.3): seconds, or until a date.

    No longer than the schedule ever waits; 0 for what is neither, and for what is over.
    """
    text = retry_after.strip()
    seconds = text.isascii() and text.isdecimal()
    wait_s = float(text) if seconds else _until(text) - now_s
    return int(max(0.0, min(wait_s, _DELAYS_S[-1])) * _SECOND_US)


def _until(text: str) -> float:
    """The time of a date in seconds since the epoch; 0 for what is none."""
    try:
        at = parsedate_to_datetime(text if len(text) <= _DATE_CHARS else "")
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
