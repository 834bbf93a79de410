"""Times in messages."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp


def timestamp(at_us: int) -> Timestamp:
    """A time in microseconds, cut to milliseconds as all answers are."""
    result = Timestamp()
    result.FromMilliseconds(at_us // 1000)
    return result
