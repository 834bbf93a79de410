"""Times in messages."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.domain.errors import Code, FlorinError, Issue

# what a timestamp can name: the years 1 to 9999
_SECONDS = range(-62_135_596_800, 253_402_300_800)
_NANOS = range(1_000_000_000)


def timestamp(at_us: int) -> Timestamp:
    """A time in microseconds, cut to milliseconds as all answers are."""
    result = Timestamp()
    result.FromMilliseconds(at_us // 1000)
    return result


def microseconds(at: Timestamp, name: str) -> int:
    """A time that was asked for, rounded up: all times of payments are whole microseconds.

    FlorinError invalid_params, about the field with the name, for what is no time.
    """
    if at.seconds not in _SECONDS or at.nanos not in _NANOS:
        why = "is no time"
        raise FlorinError(Code.INVALID_PARAMS, f"{name} {why}", issues=(Issue(name, why),))
    return at.seconds * 1_000_000 - (-at.nanos // 1000)
