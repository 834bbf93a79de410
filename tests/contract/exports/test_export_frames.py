"""Exports as data frames: the same values in Arrow, pandas, Polars and DuckDB, from any format."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import polars as pl
import pytest
from florin_server.flows.exports import folder, frames

from tests.support import exported
from tests.support.exported import FEE, export, sums

PAID = 50_000_000


@pytest.fixture
async def shop(store, shop):
    await store.write(exported.many(shop, 30))
    return shop


async def test_every_format_is_the_same_frame(shop, database, tmp_path):
    for format_ in ("csv", "jsonl", "parquet"):
        export(database, tmp_path / format_, format_)
    names = folder.read(tmp_path / "csv").parts
    assert len(names) == 10
    for name in names:
        csv, jsonl, parquet = (
            frames.arrow(tmp_path / one, name) for one in ("csv", "jsonl", "parquet")
        )
        assert csv.equals(jsonl), name
        assert csv.equals(parquet), name
        with exported.origin(database) as found:
            straight = frames.of_origin(found, name)
        assert straight.sort_by(keys(name)).equals(csv.sort_by(keys(name))), name


def keys(name):
    return [(key, "ascending") for key in exported.TABLES[name].key]


async def test_a_row_that_was_written_again_is_told_once(store, shop, database, tmp_path):
    out = tmp_path / "out"
    under_way = await store.write(shop.confirmed())
    export(database, out, "parquet")
    await store.write(shop.settle(under_way, PAID))
    export(database, out, "parquet")
    told = frames.polars(out, "payments")
    assert told.height == 31
    assert told.filter(pl.col("payment_id") == under_way.id)["status"].to_list() == ["succeeded"]
    history = frames.polars(out, "payments", history=True)
    again = history.filter(pl.col("payment_id") == under_way.id)
    assert again["status"].to_list() == ["processing", "succeeded"]
    assert again["part"].to_list() == [1, 2]


async def test_each_library_adds_up_the_same(shop, database, tmp_path):
    out = tmp_path / "out"
    export(database, out, "parquet")
    fees = 21 * FEE
    ledger = frames.pandas(out, "ledger")
    earned = ledger[ledger["credit"] == "income:fee"]
    assert sum(map(int, earned["amount_minor"])) == fees
    assert earned["amount"].sum() == Decimal(fees).scaleb(-6)
    assert str(ledger["booked_at"].dtype) == "timestamp[us, tz=UTC][pyarrow]"
    told = frames.polars(out, "ledger").filter(pl.col("credit") == "income:fee")
    assert told["amount"].sum() == Decimal(fees).scaleb(-6)
    arrow = frames.arrow(out, "ledger")
    (row,) = duckdb.sql(
        "SELECT sum(amount_minor::BIGNUM)::VARCHAR, sum(amount) FROM arrow "
        "WHERE credit = 'income:fee'"
    ).fetchall()
    assert row == (str(fees), Decimal(fees).scaleb(-6))
    (files,) = duckdb.sql(
        f"SELECT sum(amount) FROM '{out}/ledger/*.parquet' WHERE credit = 'income:fee'"
    ).fetchall()
    assert files == (Decimal(fees).scaleb(-6),)
    assert sums(arrow.to_pylist()) == sums(ledger.to_dict("records"))


async def test_a_schema_tells_units_and_meanings(shop, database, tmp_path):
    export(database, tmp_path / "out", "parquet")
    field = frames.arrow(tmp_path / "out", "options").schema.field("eta")
    assert field.metadata[b"unit"] == b"seconds"
    assert field.metadata[b"meaning"].startswith(b"how long until it is final")


async def test_what_is_not_exported_can_be_read_straight(store, shop, database):
    with exported.origin(database) as found:
        assert frames.of_origin(found, "payments").num_rows == 30
        assert frames.of_origin(found, "blocks").num_rows == 21
        assert "success_url" in frames.of_origin(found, "payments", personal=True).column_names
        assert "ask for it with --personal" in exported.refused(
            lambda: frames.of_origin(found, "buyer_data")
        )
        assert frames.of_origin(found, "buyer_data", personal=True).num_rows == 0
