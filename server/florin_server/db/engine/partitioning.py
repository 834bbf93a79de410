"""The conversion of a store to partitions by month."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from florin_server.db.engine.partitions import MonthPartition, PartitionStatus
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.where import DatabaseConfig


@dataclass(frozen=True, slots=True)
class PartitioningResult:
    """The partitions of a store after the conversion, and whether it was converted now."""

    is_converted: bool
    created_months: int
    partitions: list[MonthPartition]
    status: PartitionStatus


def partition(store: Path | DatabaseConfig) -> PartitioningResult:
    """Partition a store, or create the months that its partitions lack.

    StoreError, without changes, for SQLite, for another engine's settings, and for a schema that is
    not current.
    """
    if isinstance(store, Path):
        raise StoreError(
            "SQLite has no partitions: move the store to PostgreSQL first (`florin store copy`)"
        )
    if not store.can_partition:
        raise StoreError(
            "partitions need PostgreSQL itself, with `notify` and without `isolation = "
            '"serializable"` in the settings\' table [database]'
        )
    return asyncio.run(_partition(store))


async def _partition(database: DatabaseConfig) -> PartitioningResult:
    from florin_server.base.clock import SystemClock  # noqa: PLC0415
    from florin_server.db.engine.postgres import schema  # noqa: PLC0415
    from florin_server.db.engine.postgres.errors import (  # noqa: PLC0415
        DriverError,
        to_store_error,
    )
    from florin_server.db.engine.postgres.partitions.converting import convert  # noqa: PLC0415
    from florin_server.db.engine.postgres.partitions.partitioner import (  # noqa: PLC0415
        Partitioner,
    )

    await schema.require_current(database)
    try:
        result = await convert(database)
    except DriverError as error:
        raise to_store_error(error) from error
    partitioner = Partitioner(database)
    status = await partitioner.read_status(SystemClock().now_us())
    return PartitioningResult(
        result.is_converted,
        result.created_months,
        await partitioner.list_partitions(),
        status or PartitionStatus(),
    )
