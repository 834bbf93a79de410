"""The partitions of a database, as the store offers them."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.db.engine.partitions import MonthPartition, PartitionReplacement, PartitionStatus
from florin_server.db.engine.postgres.errors import DriverError, to_store_error
from florin_server.db.engine.postgres.partitions import converting, extending, merging, replacing
from florin_server.db.engine.postgres.partitions.catalog import (
    list_due_months,
    read_status,
    read_tables,
)
from florin_server.db.engine.postgres.partitions.session import (
    hold_schema,
    open_partition_session,
)
from florin_server.db.engine.query import Query
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.months import get_month

# a worker comes back later
_TRIES = 5
# transactions in one call: months, and portions of rows that are moved
_MONTHS_MAX = 24
# other sessions wait for rows that are copied
_REPLACE_MS = 15_000
_SIZES = (
    "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest($1::text[]) AS name"
)


@dataclass(frozen=True, slots=True)
class Partitioner:
    """Read and change the partitions of a database, on connections for this alone.

    Raise StoreError, or StoreUnavailable if other sessions keep tables locked.
    """

    database: DatabaseConfig

    async def read_status(self, now_us: int) -> PartitionStatus | None:
        """Return the state of the partitions; None if the store has none."""
        try:
            async with open_partition_session(self.database) as raw:
                return await read_status(raw, now_us)
        except DriverError as error:
            raise to_store_error(error) from error

    async def list_partitions(self) -> list[MonthPartition]:
        """Return the partitions of payments from the oldest on, without the default ones."""
        try:
            async with open_partition_session(self.database) as raw:
                return [
                    MonthPartition(
                        month, part.first_id, part.end_id, await raw.fetchval(_SIZES, names)
                    )
                    for month, part, names in replacing.list_months(await read_tables(raw))
                ]
        except DriverError as error:
            raise to_store_error(error) from error

    async def replace(self, month: str, retained: Query, kept_max: int) -> PartitionReplacement:
        """Empty the partitions of a month except for the payments that a query selects."""
        try:
            async with open_partition_session(self.database, _REPLACE_MS) as raw:
                return await replacing.replace(raw, month, retained, kept_max)
        except DriverError as error:
            raise to_store_error(error) from error

    async def merge(self, month: str, payments_max: int) -> bool:
        """Merge the oldest month into the partition before it; False if they are too large."""
        try:
            async with (
                hold_schema(self.database, 1),
                open_partition_session(self.database, _REPLACE_MS) as raw,
            ):
                return await merging.merge(raw, month, payments_max)
        except DriverError as error:
            raise to_store_error(error) from error

    async def extend(self, now_us: int) -> None:
        """Create the months that are due and lost default partitions, as far as names are free."""
        try:
            async with (
                hold_schema(self.database, 1),
                open_partition_session(self.database) as raw,
            ):
                tables = await read_tables(raw)
                if not tables:
                    await converting.drop_left_checks(raw, _TRIES)
                    return
                await extending.create_defaults(raw, _TRIES)
                for month in list_due_months(tables, get_month(now_us))[:_MONTHS_MAX]:
                    await extending.create_month(raw, month, _TRIES)
        except DriverError as error:
            raise to_store_error(error) from error
