"""Scans of tables whose keys have no meaningful order, by ranges of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, func, select

from florin_server.db.engine.query import Row, Statement, param


def select_last(key: Column[str]) -> Statement:
    """Return the last of `limit` keys after a key, and their number, without reading rows."""
    behind = select(key).where(key > param("after"))
    keys = behind.order_by(key).limit(param("limit")).subquery("limited")
    column_elements: Sequence[ColumnElement[Any]] = (func.max(keys.c[0]), func.count())
    return Statement(select(*column_elements).select_from(keys))


def select_range(rows: Select[Row], key: Column[str]) -> Select[Row]:
    """Return the rows after one key, up to another."""
    return rows.where(key > param("after"), key <= param("last"))
