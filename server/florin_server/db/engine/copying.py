"""Copies of all rows of a store, page by page in key order, into another store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Table, bindparam, func, select, tuple_

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    operation,
)
from florin_server.db.tables.tables import METADATA

# a row of any table
Row: TypeAlias = tuple[Any, ...]

_PAGE = 1000


class TableDigest(NamedTuple):
    """The number of rows of a table, and the SHA-256 of all rows in key order."""

    rows: int
    digest: str


class _TableStatements(NamedTuple):
    first_page: Statement[Row]
    next_page: Statement[Row]
    insert_row: Command
    names: Sequence[str]
    key: Sequence[int]


def list_tables() -> Iterator[Table]:
    """Yield every table after the tables that it references."""
    yield from METADATA.sorted_tables


@cache
def _get_statements(name: str) -> _TableStatements:
    table = METADATA.tables[name]
    key = list(table.primary_key.columns)
    names = [column.name for column in table.columns]
    page = select(*table.columns).order_by(*key).limit(_PAGE)
    last = tuple_(*(bindparam(f"last_{column.name}", type_=column.type) for column in key))
    return _TableStatements(
        first_page=Statement(page, tuple),
        next_page=Statement(page.where(tuple_(*key) > last), tuple),
        insert_row=Command(insert(table)),
        names=names,
        key=[names.index(column.name) for column in key],
    )


@operation
def list_page(name: str, last: Row | None) -> Op[list[Row]]:
    """Return the rows of a table after `last`, in key order; an empty list at the end."""
    table_statements = _get_statements(name)
    if last is None:
        return (yield from table_statements.first_page.all())
    return (
        yield from table_statements.next_page.all(
            **{f"last_{table_statements.names[at]}": last[at] for at in table_statements.key}
        )
    )


@operation
def insert_rows(name: str, rows: Sequence[Row]) -> Op[None]:
    """Insert rows into a table that has none of them."""
    table_statements = _get_statements(name)
    yield table_statements.insert_row.bind_many(
        [dict(zip(table_statements.names, row, strict=True)) for row in rows]
    )


@operation
def digest_tables(
    visit: Callable[[str, list[Row]], None] | None = None,
) -> Op[dict[str, TableDigest]]:
    """Return a digest of each table, from one snapshot; `visit` receives the rows as they are read.

    With `visit` the operation must not be retried.
    """
    table_digests = {}
    for table in list_tables():
        table_digests[table.name] = yield from digest_table(table.name, visit)
    return table_digests


@operation
def digest_table(
    name: str, visit: Callable[[str, list[Row]], None] | None = None
) -> Op[TableDigest]:
    """Return the digest of one table; `visit` receives the rows as they are read."""
    digest, count, last = sha256(), 0, None
    while rows := (yield from list_page(name, last)):
        if visit is not None:
            visit(name, rows)
        count, last = count + len(rows), rows[-1]
        update_digest(digest, rows)
    return TableDigest(count, digest.hexdigest())


@operation
def is_empty() -> Op[bool]:
    """Return True if no table has a row."""
    for table in list_tables():
        if (yield from Statement(select(func.count()).select_from(table), int).single()):
            return False
    return True


def update_digest(digest: Any, rows: Sequence[Row]) -> None:
    """Add rows to a digest; their values are equal on every engine."""
    for row in rows:
        digest.update(repr(tuple(map(_to_ordered, row))).encode())


def _to_ordered(value: Any) -> Any:
    # a set has no order
    return sorted(value) if isinstance(value, frozenset) else value
