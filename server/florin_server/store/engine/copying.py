"""All rows of a store, page by page in the order of their keys, and into another store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Table, bindparam, func, select, tuple_

from florin_server.store.engine.query import Op, Row, Statement, insert, operation
from florin_server.store.tables.tables import METADATA

_PAGE = 1000


class Content(NamedTuple):
    """How many rows a table has, and the SHA-256 of all of them in the order of their keys."""

    rows: int
    digest: str


class _Kept(NamedTuple):
    first: Statement
    behind: Statement
    add: Statement
    names: Sequence[str]
    key: Sequence[int]


def tables() -> Iterator[Table]:
    """Every table, behind those that it refers to."""
    yield from METADATA.sorted_tables


@cache
def _kept(name: str) -> _Kept:
    table = METADATA.tables[name]
    key = list(table.primary_key.columns)
    names = [column.name for column in table.columns]
    page = select(*table.columns).order_by(*key).limit(_PAGE)
    last = tuple_(*(bindparam(f"last_{column.name}", type_=column.type) for column in key))
    return _Kept(
        first=Statement(page),
        behind=Statement(page.where(tuple_(*key) > last)),
        add=Statement(insert(table)),
        names=names,
        key=[names.index(column.name) for column in key],
    )


@operation
def page(name: str, last: Row | None) -> Op[list[Row]]:
    """The rows of a table behind one, in the order of the key; nothing at the end."""
    kept = _kept(name)
    if last is None:
        return (yield kept.first())
    return (yield kept.behind(**{f"last_{kept.names[at]}": last[at] for at in kept.key}))


@operation
def put(name: str, rows: Sequence[Row]) -> Op[None]:
    """Stores rows of a table that has none of them."""
    kept = _kept(name)
    yield kept.add.many([dict(zip(kept.names, row, strict=True)) for row in rows])


@operation
def contents(take: Callable[[str, list[Row]], None] | None = None) -> Op[dict[str, Content]]:
    """What there is in each table, from one state; `take` is given the rows as they are read.

    With `take` it is not to be begun anew.
    """
    found = {}
    for table in tables():
        found[table.name] = yield from content(table.name, take)
    return found


@operation
def content(name: str, take: Callable[[str, list[Row]], None] | None = None) -> Op[Content]:
    """The same of one table."""
    digest, count, last = sha256(), 0, None
    while rows := (yield from page(name, last)):
        if take is not None:
            take(name, rows)
        count, last = count + len(rows), rows[-1]
        add(digest, rows)
    return Content(count, digest.hexdigest())


@operation
def is_empty() -> Op[bool]:
    """True if no table has a row."""
    for table in tables():
        ((count,),) = yield Statement(select(func.count()).select_from(table))()
        if count:
            return False
    return True


def add(digest: Any, rows: Sequence[Row]) -> None:
    """Rows are the same on every engine once they are values of their columns' types."""
    for row in rows:
        digest.update(repr(tuple(map(_plain, row))).encode())


def _plain(value: Any) -> Any:
    # a set has no order of its own
    return sorted(value) if isinstance(value, frozenset) else value
