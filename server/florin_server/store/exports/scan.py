"""Tables whose keys come in no order: looked through by ranges of keys, of so many rows each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, func, select

from florin_server.store.engine.query import Row, Statement, param


def last_of(key: Column[str]) -> Statement:
    """The last of `limit` keys behind one, and how many there are; nobody reads the rows."""
    behind = select(key).where(key > param("after"))
    keys = behind.order_by(key).limit(param("limit")).subquery("limited")
    told: Sequence[ColumnElement[Any]] = (func.max(keys.c[0]), func.count())
    return Statement(select(*told).select_from(keys))


def range_of(rows: Select[Row], key: Column[str]) -> Select[Row]:
    """The rows behind one key, up to another."""
    return rows.where(key > param("after"), key <= param("last"))
