"""What cannot be exported is told in one sentence, with what to do; nothing is changed by it."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import stat
from contextlib import closing

import pytest
from florin_server.flows.exports import frames
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.reading import Reading

from tests.support import exported, store_kit
from tests.support.exported import Shop, export, refused


@pytest.fixture
async def database(tmp_path):
    async with store_kit.opened("sqlite", tmp_path) as store:
        await store.write(exported.many(Shop(await store_kit.leased(store)), 3))
    return tmp_path / "florin.db"


async def test_a_folder_goes_on_as_it_began(database, tmp_path):
    out = tmp_path / "out"
    export(database, out, "csv")
    before = sorted((one, one.stat().st_mtime_ns) for one in out.rglob("*.*"))
    assert "ask for the same, or name another folder" in refused(
        lambda: export(database, out, "jsonl")
    )
    assert "holds payments, events," in refused(lambda: export(database, out, "csv", "payments"))
    assert "ask for the same" in refused(lambda: export(database, out, personal=True))
    assert "has a cursor of its own" in refused(
        lambda: export(database, out, since=out / "export.json")
    )
    assert sorted((one, one.stat().st_mtime_ns) for one in out.rglob("*.*")) == before


async def test_a_cursor_is_of_one_store(database, tmp_path):
    out, new = tmp_path / "out", tmp_path / "new"
    export(database, out)
    sentence = "belongs to another Florin or another merchant: export into an empty folder"
    assert sentence in refused(lambda: export(database, out, id_="another"))
    assert sentence in refused(
        lambda: export(database, new, since=out / "export.json", id_="another")
    )


async def test_a_cursor_is_an_export_json(database, tmp_path):
    nowhere, text, other = tmp_path / "nowhere", tmp_path / "text", tmp_path / "other.json"
    text.write_text("pay_1")
    other.write_text('{"florin_export": 99}')
    for since, told in (
        (nowhere, "there is no export at"),
        (text, "cannot be read"),
        (other, "is no cursor of this Florin's exports"),
    ):
        assert told in refused(lambda since=since: export(database, tmp_path / "new", since=since))
    assert not (tmp_path / "new").exists()


async def test_a_damaged_cursor_is_told(database, tmp_path):
    out = tmp_path / "out"
    export(database, out)
    said = json.loads((out / "export.json").read_bytes())
    for damaged, told in (
        ({**said, "format": "xlsx"}, "is damaged"),
        ({**said, "cursor": {}}, "the cursor is damaged"),
        (
            {**said, "tables": {"payments": {**said["tables"]["payments"], "columns": ["a"]}}},
            "has the columns of another Florin",
        ),
    ):
        (out / "export.json").write_text(json.dumps(damaged))
        assert told in refused(lambda: export(database, out))


async def test_a_folder_of_others_is_left_alone(database, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    assert "holds other files (letter.txt)" in refused(lambda: export(database, tmp_path / "home"))
    assert [one.name for one in (tmp_path / "home").iterdir()] == ["letter.txt"]
    letter = tmp_path / "home" / "letter.txt"
    assert "is a file: name a folder" in refused(lambda: export(database, letter))


async def test_an_export_is_for_its_owner_only(database, tmp_path):
    out = tmp_path / "out"
    export(database, out)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in out.rglob("*")}
    assert modes.pop(".lock") is not None
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert {mode & 0o077 for mode in modes.values()} == {0}


async def test_one_export_at_a_time_writes_into_a_folder(database, tmp_path):
    out = tmp_path / "out"
    export(database, out)
    with (out / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another export writes into" in refused(lambda: export(database, out))


async def test_a_table_has_to_be_there(database, tmp_path):
    out = tmp_path / "out"
    assert "there is no table payment; there are payments, events," in refused(
        lambda: export(database, out, "csv", "payment")
    )
    assert "buyer_data is personal data: ask for it with --personal" in refused(
        lambda: export(database, out, "csv", "buyer_data")
    )
    export(database, out, "csv", "payments")
    assert "has no table ledger; it has payments" in refused(lambda: frames.arrow(out, "ledger"))
    assert "there is no export at" in refused(lambda: frames.arrow(tmp_path / "x", "ledger"))


async def test_a_store_of_another_version_is_not_read(database, tmp_path):
    with closing(sqlite3.connect(database)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = 'v9999', compatible_from = 'v9998'")
    with pytest.raises(StoreError, match=r"has schema v9999, and this Florin reads v\d+"):
        Reading(database)
    with pytest.raises(StoreError, match="there is no store at"):
        Reading(tmp_path / "nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()
