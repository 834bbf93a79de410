"""Databases with partitions, and what tests compare of them."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from florin_server.db.engine.partitions import PARTITION_KEYS
from florin_server.db.engine.postgres.partitions.converting import convert
from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.payments.months import get_first_id, get_month
from florin_server.domain.payments.payment import Payment
from florin_server.money.payments.store import payments

from tests.support import postgres
from tests.support.store_factories import make_payment

_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_PARENTS = """
SELECT relid::regclass::text, coalesce(parentrelid::regclass::text, ''), isleaf
FROM unnest($1::text[]) AS name, pg_partition_tree(name::regclass)
"""
_INDEXES = """
SELECT indrelid::regclass::text, pg_get_indexdef(indexrelid), indisunique, indisprimary,
    indisvalid, indisready
FROM pg_index WHERE indrelid::regclass::text = ANY($1)
"""
_CONSTRAINTS = """
SELECT conrelid::regclass::text, contype, pg_get_constraintdef(oid), convalidated FROM pg_constraint
WHERE conrelid::regclass::text = ANY($1)
"""
_COLUMNS = """
SELECT attrelid::regclass::text, attname, atttypid::regtype::text, attnotnull,
    pg_get_expr(adbin, adrelid), attcollation
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attnum > 0 AND NOT attisdropped AND attrelid::regclass::text = ANY($1)
ORDER BY attrelid, attnum
"""


async def get_database_month(database: DatabaseConfig) -> int:
    """Return the month of the database's clock."""
    ((now_us,),) = await postgres.list_rows(database.dsn, _TIME)
    return get_month(now_us)


def make_id(month: int, number: int = 1) -> str:
    """Return a payment id of a month."""
    return f"{get_first_id(month)}{number:018}"


async def put_payment(store: Store, payment_id: str, **changes: Any) -> Payment:
    """Store a payment of an id."""
    payment = make_payment(id=payment_id, **changes)
    await store.write(payments.create(payment))
    return payment


async def read_tree(database: DatabaseConfig) -> dict[str, list[str]]:
    """Return the partitions of each partitioned table."""
    tree = defaultdict(list)
    for name, parent, _ in await postgres.list_rows(database.dsn, _PARENTS, list(PARTITION_KEYS)):
        if parent:
            tree[parent].append(name)
    return tree


async def read_shapes(database: DatabaseConfig, tables: list[str]) -> dict[str, list[Any]]:
    """Return the columns, indexes and constraints of each table, without names of their own."""
    shapes: dict[str, list[Any]] = {table: [] for table in tables}
    for table, *column in await postgres.list_rows(database.dsn, _COLUMNS, tables):
        shapes[table].append(column)
    rest = []
    for query in (_INDEXES, _CONSTRAINTS):
        for table, *facts in await postgres.list_rows(database.dsn, query, tables):
            rest.append((table, [_strip_names(fact, table) for fact in facts]))
    for table, facts in sorted(rest, key=repr):
        shapes[table].append(facts)
    return shapes


async def read_shape(database: DatabaseConfig, table: str) -> list[Any]:
    return (await read_shapes(database, [table]))[table]


def _strip_names(fact: Any, table: str) -> Any:
    if not isinstance(fact, str):
        return fact
    text = re.sub(r"INDEX \w+ ON (ONLY )?\S+", "INDEX ON", fact)
    return text.replace(f"{table}.", "")


async def spread_payments(database: DatabaseConfig) -> None:
    """Partition a database, with many small partitions for the ids that tests number."""
    await convert(database)
    bounds = ["MINVALUE", *(f"'pay_{number * 3:027}'" for number in range(1, 20))]
    commands = []
    for table in PARTITION_KEYS:
        end = (await list_bounds(database, f"{table}_past"))[1]
        commands.append(f"DROP TABLE {table}_past")
        for number, (first, last) in enumerate(pairwise([*bounds, end])):
            commands.append(
                f"CREATE TABLE {table}_past_{number} PARTITION OF {table} "
                f"FOR VALUES FROM ({first}) TO ({last})"
            )
    await postgres.run_commands(database.dsn, *commands)


async def begin_months(database: DatabaseConfig, first_month: int) -> None:
    """Partition a database without rows from a month on that is past."""
    await convert(database)
    end = f"'{get_first_id(first_month)}'"
    for table in PARTITION_KEYS:
        await postgres.run_commands(
            database.dsn,
            f"DROP TABLE {table}_past",
            f"CREATE TABLE {table}_past PARTITION OF {table} FOR VALUES FROM (MINVALUE) TO ({end})",
        )
    await convert(database)


async def list_bounds(database: DatabaseConfig, partition: str) -> list[str]:
    """Return the two bounds of a partition, as SQL."""
    query = "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = $1"
    ((bound,),) = await postgres.list_rows(database.dsn, query, partition)
    return re.findall(r"\((.*?)\)", bound)


def to_time_us(month: int) -> int:
    """Return a time in the middle of a month."""
    return int(datetime(month // 12, month % 12 + 1, 15, tzinfo=UTC).timestamp()) * 1_000_000
