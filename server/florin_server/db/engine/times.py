"""Stored retry times, and which of them are plausible."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, literal, or_

from florin_server.db.engine.query import param

# no lease and no pause of a payment is longer: a later time is from a clock that was ahead
PAUSE_MAX_US = 600_000_000


def is_due(retry_at_us: ColumnElement[Any]) -> ColumnElement[bool]:
    """Build the condition that a time has come by `now_us`, or is implausibly far ahead."""
    return or_(
        retry_at_us <= param("now_us"), retry_at_us - literal(PAUSE_MAX_US) > param("now_us")
    )
