"""Test exports as data frames: equal values in Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import polars as pl
import pytest
from florin_server.features.exports.service import folder, frames

from tests.support import export_stores
from tests.support.export_stores import FEE, export_store, sum_postings

PAID = 50_000_000


@pytest.fixture
async def shop(store, shop):
    await store.write(export_stores.make_payments(shop, 30))
    return shop


async def test_every_format_is_the_same_frame(shop, database, tmp_path):
    for format_ in ("csv", "jsonl", "parquet"):
        export_store(database, tmp_path / format_, format_)
    names = folder.read_manifest(tmp_path / "csv").parts
    assert len(names) == 10
    for name in names:
        csv, jsonl, parquet = (
            frames.arrow(tmp_path / item, name) for item in ("csv", "jsonl", "parquet")
        )
        assert csv.equals(jsonl), name
        assert csv.equals(parquet), name
        with export_stores.open_origin(database) as origin:
            straight = frames.read_origin(origin, name)
        assert straight.sort_by(keys(name)).equals(csv.sort_by(keys(name))), name


def keys(name):
    return [(key, "ascending") for key in export_stores.TABLES[name].key]


async def test_rewritten_row_is_returned_once(store, shop, database, tmp_path):
    out = tmp_path / "out"
    under_way = await store.write(shop.create_confirmed())
    export_store(database, out, "parquet")
    await store.write(shop.settle(under_way, PAID))
    export_store(database, out, "parquet")
    result = frames.polars(out, "payments")
    assert result.height == 31
    assert result.filter(pl.col("payment_id") == under_way.id)["status"].to_list() == ["succeeded"]
    history = frames.polars(out, "payments", history=True)
    again = history.filter(pl.col("payment_id") == under_way.id)
    assert again["status"].to_list() == ["processing", "succeeded"]
    assert again["part"].to_list() == [1, 2]


async def test_each_library_adds_up_the_same(shop, database, tmp_path):
    out = tmp_path / "out"
    export_store(database, out, "parquet")
    fees = 21 * FEE
    ledger = frames.pandas(out, "ledger")
    earned = ledger[ledger["credit"] == "income:fee"]
    assert sum(map(int, earned["amount_minor"])) == fees
    assert earned["amount"].sum() == Decimal(fees).scaleb(-6)
    assert str(ledger["booked_at"].dtype) == "timestamp[us, tz=UTC][pyarrow]"
    result = frames.polars(out, "ledger").filter(pl.col("credit") == "income:fee")
    assert result["amount"].sum() == Decimal(fees).scaleb(-6)
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
    assert sum_postings(arrow.to_pylist()) == sum_postings(ledger.to_dict("records"))


async def test_schema_contains_units_and_meanings(shop, database, tmp_path):
    export_store(database, tmp_path / "out", "parquet")
    field = frames.arrow(tmp_path / "out", "options").schema.field("eta")
    assert field.metadata[b"unit"] == b"seconds"
    assert field.metadata[b"meaning"].startswith(b"promised seconds until it is final")


async def test_tables_can_be_read_directly_without_an_export(store, shop, database):
    with export_stores.open_origin(database) as origin:
        assert frames.read_origin(origin, "payments").num_rows == 30
        assert frames.read_origin(origin, "blocks").num_rows == 21
        assert "success_url" in frames.read_origin(origin, "payments", personal=True).column_names
        assert "add --personal" in export_stores.get_refusal(
            lambda: frames.read_origin(origin, "buyer_data")
        )
        assert frames.read_origin(origin, "buyer_data", personal=True).num_rows == 0
