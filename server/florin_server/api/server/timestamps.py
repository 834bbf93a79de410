"""Times in messages."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue

# the range of a timestamp: the years 1 to 9999
_SECONDS = range(-62_135_596_800, 253_402_300_800)
_NANOS = range(1_000_000_000)


def to_timestamp(at_us: int) -> Timestamp:
    """Return a time given in microseconds, truncated to milliseconds like all responses."""
    result = Timestamp()
    result.FromMilliseconds(at_us // 1000)
    return result


def to_microseconds(at: Timestamp, name: str) -> int:
    """Return a requested time in microseconds, rounded up: payments have whole microseconds.

    Raise ApiError(invalid_params), about the field with the name, for an invalid time.
    """
    if at.seconds not in _SECONDS or at.nanos not in _NANOS:
        why = "is not a valid time"
        raise ApiError(ErrorCode.INVALID_PARAMS, f"{name} {why}", issues=(FieldIssue(name, why),))
    return at.seconds * 1_000_000 - (-at.nanos // 1000)
