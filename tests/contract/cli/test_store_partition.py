"""`florin store partition`: it prints the partitions, and refuses SQLite with what to do."""

from __future__ import annotations

import json

import pytest

from tests.support import postgres
from tests.support.command import run_florin


def test_sqlite_is_refused_with_a_way_out(tmp_path):
    done = run_florin("store", "partition", home=tmp_path)
    assert done.status == 1
    assert "SQLite has no partitions: move the store to PostgreSQL first" in done.err


@pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)
def test_partitions_are_printed_and_created_once(tmp_path):
    dsn = postgres.get_database(tmp_path).dsn
    command = ("store", "partition", "--json")
    first, second = (
        json.loads(run_florin(*command, home=tmp_path, FLORIN_STORE=dsn).out) for _ in range(2)
    )
    assert (first["converted"], second["converted"]) == (True, False)
    assert first["partitions"][0]["month"] == "past"
    assert len(first["partitions"]) == 5
    assert second["partitions"] == first["partitions"]
    done = run_florin("store", "partition", home=tmp_path, FLORIN_STORE=dsn)
    assert "had partitions already" in done.out
    postgres.run_coroutine(lambda: postgres.drop_database(tmp_path))
