"""Partitions of payments by the UTC calendar month in which they were created.

Payment ids begin with their time, so a month is a range of ids. Every table whose key begins with
the payment id has the same ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from florin_server.domain.ids import find_payment_id_ms, get_payment_id_floor

# the key column of each table, in the order in which tables are locked
PARTITION_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "payment": "id",
        "payment_event": "payment_id",
        "payment_option": "payment_id",
        "option_count": "payment_id",
        "issued": "payment_id",
        "confirm": "payment_id",
        "payment_effect": "payment_id",
        "payment_settled": "payment_id",
        "refund_event": "payment_id",
    }
)
# the partition of all payments before the first month
PAST: Final = "past"
# more rows than this are deleted in place: other sessions wait while they are copied
KEPT_MAX: Final = 50_000
# partitions exist for so many months after the current month
MONTHS_AHEAD: Final = 3
# a report of rows in the default partitions counts no further
STRAY_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class MonthPartition:
    """The payments of a month (`2026-09`), or all before the first month (`past`).

    Their ids are at least `first_id`, which is empty for `past`, and below `end_id`. `size_bytes`
    is the size on disk of all tables, with their indexes.
    """

    month: str
    first_id: str
    end_id: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PartitionReplacement:
    """The result of replacing a partition by the payments to keep.

    Without `is_replaced` nothing has changed: more than the allowed number would have been kept,
    and `kept_count` is one more than that number.
    """

    is_replaced: bool
    kept_count: int
    freed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The state of a store's partitions.

    `missing` names tables with the months that they lack, `stray_rows` counts the rows in default
    partitions up to `STRAY_MAX` for each table. With `is_due`, `extend_partitions` has work to do.
    """

    missing: tuple[str, ...] = ()
    stray_rows: Mapping[str, int] = field(default_factory=dict)
    is_due: bool = False


def get_month(now_us: int) -> int:
    """Return the number of the UTC calendar month of a time: months since the year 0."""
    now = datetime.fromtimestamp(now_us / 1_000_000, UTC)
    return now.year * 12 + now.month - 1


def format_month(month: int) -> str:
    """Return a month as `2026-09`."""
    return f"{month // 12}-{month % 12 + 1:02}"


def get_first_id(month: int) -> str:
    """Return a text between the payment ids before a month and those from it on."""
    start = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return get_payment_id_floor(int(start.timestamp()) * 1000)


def find_month(payment_id: str) -> int | None:
    """Return the month of a payment id, or None if it has no time before the year 9999."""
    ms = find_payment_id_ms(payment_id)
    # the last year of calendars
    if ms is None or ms >= 253_370_764_800_000:
        return None
    return get_month(ms * 1000)
