"""Test which SQLite errors are temporary, and which are bugs."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from florin_server.db.engine.query import StoreError, StoreUnavailable
from florin_server.db.engine.sqlite import to_store_error


def failed(*commands: str) -> Exception:
    """Return the store's error for the last command."""
    *first, last = commands
    with closing(sqlite3.connect(":memory:")) as database:
        for command in first:
            database.execute(command)
        with pytest.raises(sqlite3.Error) as caught:
            database.execute(last)
    return to_store_error(caught.value)


def test_a_full_disk_passes():
    error = failed(
        "CREATE TABLE t (x)", "PRAGMA max_page_count = 2", "INSERT INTO t VALUES (zeroblob(99999))"
    )
    assert type(error) is StoreUnavailable
    assert isinstance(error.__cause__, sqlite3.Error)


def test_a_file_that_cannot_be_opened_or_written_passes():
    assert type(failed("ATTACH '/nowhere/at/all.db' AS other")) is StoreUnavailable
    written = failed("CREATE TABLE t (x)", "PRAGMA query_only = 1", "INSERT INTO t VALUES (1)")
    assert type(written) is StoreUnavailable


def test_our_own_mistakes_do_not_pass():
    taken = ("CREATE TABLE t (x PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    for commands in (("SELECT * FROM nothing",), ("nonsense",), (*taken, taken[1])):
        assert type(failed(*commands)) is StoreError


def test_foreign_error_is_returned_unchanged():
    error = ValueError("no store's")
    assert to_store_error(error) is error
