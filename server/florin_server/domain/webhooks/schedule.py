"""When what could not be delivered is tried again, and when that is over."""

from __future__ import annotations

import zlib
from typing import Final

_SECOND_US: Final = 1_000_000
# then every twelve hours, until the time is up
_DELAYS_S: Final = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200)
# so many failures in a row are the endpoint's, not a payment's: it is left alone for a while
FAILING: Final = 5
_ALONE_S: Final = (5, 15, 60, 300, 900)
# nothing waits for longer: what seems to was written by a clock that was ahead
LONGEST_US: Final = 2 * _DELAYS_S[-1] * _SECOND_US


def retry_after_us(attempts: int, key: str) -> int:
    """How long to wait after so many attempts, with up to a tenth more, always the same for a key.

    Of many that fail together each comes back at a time of its own.
    """
    delay_us = _DELAYS_S[min(attempts, len(_DELAYS_S)) - 1] * _SECOND_US
    return delay_us + delay_us * (zlib.crc32(f"{key}:{attempts}".encode()) % 1000) // 10_000


def rest_us(failures: int) -> int:
    """For how long an endpoint is left alone after so many failures in a row."""
    if failures < FAILING:
        return 0
    return _ALONE_S[min(failures - FAILING, len(_ALONE_S) - 1)] * _SECOND_US
