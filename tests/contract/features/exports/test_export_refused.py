"""Test that refused exports explain in one sentence what to do, and change nothing."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import stat
from contextlib import closing

import pytest
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.reading import SqliteStoreReader
from florin_server.features.exports.service import frames

from tests.support import export_stores, store_factories
from tests.support.export_stores import ExportStoreBuilder, export_store, get_refusal


@pytest.fixture
async def database(tmp_path):
    async with store_factories.open_engine_store("sqlite", tmp_path) as store:
        await store.write(
            export_stores.make_payments(
                ExportStoreBuilder(await store_factories.acquire_lease(store)), 3
            )
        )
    return tmp_path / "florin.db"


async def test_export_folder_keeps_its_format_and_tables(database, tmp_path):
    out = tmp_path / "out"
    export_store(database, out, "csv")
    before = sorted((item, item.stat().st_mtime_ns) for item in out.rglob("*.*"))
    assert "request the same, or name another folder" in get_refusal(
        lambda: export_store(database, out, "jsonl")
    )
    assert "holds payments, events," in get_refusal(
        lambda: export_store(database, out, "csv", "payments")
    )
    assert "request the same" in get_refusal(lambda: export_store(database, out, personal=True))
    assert "already has a cursor" in get_refusal(
        lambda: export_store(database, out, since=out / "export.json")
    )
    assert sorted((item, item.stat().st_mtime_ns) for item in out.rglob("*.*")) == before


async def test_cursor_belongs_to_a_single_store(database, tmp_path):
    out, new = tmp_path / "out", tmp_path / "new"
    export_store(database, out)
    sentence = "belongs to another installation or merchant: export into an empty folder"
    assert sentence in get_refusal(lambda: export_store(database, out, id_="another"))
    assert sentence in get_refusal(
        lambda: export_store(database, new, since=out / "export.json", id_="another")
    )


async def test_a_cursor_is_an_export_json(database, tmp_path):
    nowhere, text, other = tmp_path / "nowhere", tmp_path / "text", tmp_path / "other.json"
    text.write_text("pay_1")
    other.write_text('{"florin_export": 99}')
    for since, output in (
        (nowhere, "no export exists at"),
        (text, "cannot be read"),
        (other, "is not a cursor of this installation's exports"),
    ):
        assert output in get_refusal(
            lambda since=since: export_store(database, tmp_path / "new", since=since)
        )
    assert not (tmp_path / "new").exists()


async def test_damaged_cursor_is_reported(database, tmp_path):
    out = tmp_path / "out"
    export_store(database, out)
    text = json.loads((out / "export.json").read_bytes())
    for damaged, output in (
        ({**text, "format": "xlsx"}, "is damaged"),
        ({**text, "cursor": {}}, "the cursor is damaged"),
        (
            {**text, "tables": {"payments": {**text["tables"]["payments"], "columns": ["a"]}}},
            "has the columns of another release of Florin",
        ),
    ):
        (out / "export.json").write_text(json.dumps(damaged))
        assert output in get_refusal(lambda: export_store(database, out))


async def test_folder_with_foreign_files_is_refused(database, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    assert "contains other files (letter.txt)" in get_refusal(
        lambda: export_store(database, tmp_path / "home")
    )
    assert [item.name for item in (tmp_path / "home").iterdir()] == ["letter.txt"]
    letter = tmp_path / "home" / "letter.txt"
    assert "is a file: name a folder" in get_refusal(lambda: export_store(database, letter))


async def test_an_export_is_for_its_owner_only(database, tmp_path):
    out = tmp_path / "out"
    export_store(database, out)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in out.rglob("*")}
    assert modes.pop(".lock") is not None
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert {mode & 0o077 for mode in modes.values()} == {0}


async def test_concurrent_export_into_a_folder_is_refused(database, tmp_path):
    out = tmp_path / "out"
    export_store(database, out)
    with (out / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another export writes into" in get_refusal(lambda: export_store(database, out))


async def test_a_table_has_to_be_there(database, tmp_path):
    out = tmp_path / "out"
    assert "unknown table payment; the tables are payments, events," in get_refusal(
        lambda: export_store(database, out, "csv", "payment")
    )
    assert "buyer_data contains personal data: add --personal" in get_refusal(
        lambda: export_store(database, out, "csv", "buyer_data")
    )
    export_store(database, out, "csv", "payments")
    assert "has no table ledger; it has payments" in get_refusal(
        lambda: frames.arrow(out, "ledger")
    )
    assert "no export exists at" in get_refusal(lambda: frames.arrow(tmp_path / "x", "ledger"))


async def test_a_store_of_another_version_is_not_read(database, tmp_path):
    with closing(sqlite3.connect(database)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = 'v9999', compatible_from = 'v9998'")
    with pytest.raises(StoreError, match=r"has schema v9999, but this Florin reads v\d+"):
        SqliteStoreReader(database)
    with pytest.raises(StoreError, match="no store exists at"):
        SqliteStoreReader(tmp_path / "nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()
