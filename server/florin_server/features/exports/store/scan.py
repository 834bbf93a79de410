"""Scans of tables whose keys have no meaningful order, by ranges of keys."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Column, Select, func, select

from florin_server.db.engine.query import Statement, param


class LastKey(NamedTuple):
    """The last of some keys, None if there are none, and their number."""

    key: str | None
    keys: int


def select_last(key: Column[str]) -> Statement[LastKey]:
    """Return the last of `limit` keys after a key, and their number, without reading rows."""
    behind = select(key).where(key > param("after"))
    keys = behind.order_by(key).limit(param("limit")).subquery("limited")
    last = select(func.max(keys.c[0]).label("key"), func.count().label("keys"))
    return Statement(last.select_from(keys), LastKey)


def select_range(rows: Select[Any], key: Column[str]) -> Select[Any]:
    """Return the rows after one key, up to another."""
    return rows.where(key > param("after"), key <= param("last"))
