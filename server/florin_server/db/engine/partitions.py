"""Partitions of payments by the UTC calendar month in which they were created.

Payment ids begin with their time, so a month is a range of ids. The tables that grow with payments
have the same ranges. `payment_settled` and `refund_event` have one small row for some payments, and
are read for each change of a payment by a join, where PostgreSQL would plan all partitions: that
would double the database's work for a payment. They also stay when a payment is archived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

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
    }
)
# the partition of all payments before the first month
PAST: Final = "past"
# More payments are not copied, because sessions that read the month wait meanwhile: a thousand take
# a second, and 50,000 took ten on a busy machine.
KEPT_MAX: Final = 10_000
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
