"""Test exports of a store in use: nothing waits for the export, and it sees whole payments."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.store import BuyerDataRecord
from florin_server.db.engine.query import run
from florin_server.domain.exports.tables import TABLES
from florin_server.domain.sealed import Cipher
from florin_server.features.exports.service import folder, frames
from florin_server.features.exports.service.formats import ExportFormat
from florin_server.features.exports.service.run import ExportRun
from florin_server.features.exports.store import roots

from tests.support import exported, store_kit
from tests.support.exported import (
    ORIGIN,
    ExportStoreBuilder,
    export_store,
    keep_newest,
    read_rows,
    read_tables,
)
from tests.support.store_kit import PAYER

SEAL = Cipher((b"k" * 32,))
TOLD = b'{"fullName":"Ada Lovelace","porAddress":"12 St James Square"}'
WORDS = (b"Ada Lovelace", b"St James", b"fullName", b"shop.example")


class Between:
    """A feed that calls a function after each page, while its reader is writing."""

    def __init__(self, feed, act):
        self.name, self.tables, self.is_complete = feed.name, feed.tables, feed.is_complete
        self.read_roots = feed.read_roots
        self._feed, self._act = feed, act

    def read_page(self, after_key: str, since_us: int) -> roots.ExportPage:
        page = self._feed.read_page(after_key, since_us)
        self._act()
        return page


async def test_pages_hold_nothing_of_the_store(tmp_path):
    """Between any two pages the store's log is written to its file and emptied."""
    database = tmp_path / "florin.db"
    async with store_kit.open_engine_store("sqlite", tmp_path) as store:
        shop = ExportStoreBuilder(await store_kit.acquire_lease(store))
        await store.write(exported.make_payments(shop, 1200))
        emptied = []

        def work():
            with closing(sqlite3.connect(database, isolation_level=None)) as raw:
                # a write that happens all the time in a busy service
                raw.execute("UPDATE lease SET until_us = until_us + 1")
                ((busy, left, _),) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                emptied.append((busy, left))

        with exported.open_origin(database) as found_origin:
            busy = [Between(feed, work) for feed in found_origin.feeds]
            shape = folder.ExportSpec(
                ExportFormat.JSONL, tuple(TABLES[n] for n in found_origin.tables), False
            )
            origin = exported.replace(found_origin, feeds=busy)
            with folder.open_folder(tmp_path / "out", shape, ORIGIN) as into:
                ExportRun(into, origin).export_all()
        assert len(emptied) > 5
        assert set(emptied) == {(0, 0)}


async def test_export_resumed_a_day_later_includes_rows_before_its_cursor(tmp_path):
    """Keys of journals and transactions are unordered: new rows come before the last position."""
    database, out = tmp_path / "florin.db", tmp_path / "out"
    async with store_kit.open_engine_store("sqlite", tmp_path) as store:
        shop = ExportStoreBuilder(await store_kit.acquire_lease(store))
        await store.write(exported.make_payments(shop, 1200))
        shape = folder.ExportSpec(
            ExportFormat.JSONL, folder.select_tables((), set(TABLES), personal=False), False
        )
        left = [2]

        def die():
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("killed")

        with exported.open_origin(database, now_us=shop.at_us) as origin:
            dying = exported.replace(origin, feeds=[Between(feed, die) for feed in origin.feeds])
            with (
                pytest.raises(RuntimeError, match="killed"),
                folder.open_folder(out, shape, ORIGIN) as into,
            ):
                ExportRun(into, dying, part_rows=1).export_all()
        assert folder.read_manifest(out).cursor.get_position("ledger").after_key is not None
        shop.at_us += 1440 * exported.MINUTE_US
        await store.write(exported.make_payments(shop, 600))
        shop.at_us += 1440 * exported.MINUTE_US
        for _ in range(2):
            with (
                exported.open_origin(database, now_us=shop.at_us) as origin,
                folder.open_folder(out, shape, ORIGIN) as into,
            ):
                ExportRun(into, origin).export_all()
            await store.write(exported.make_payments(shop, 1))
        export_store(database, out, "jsonl")
        export_store(database, tmp_path / "everything", "jsonl")
        assert read_tables(out) == read_tables(tmp_path / "everything")
        assert len(read_rows(out, "ledger")) == len(keep_newest(read_rows(out, "ledger"), "ledger"))


async def test_row_written_during_an_export_appears_once_in_the_end(tmp_path):
    database, out = tmp_path / "florin.db", tmp_path / "out"
    async with store_kit.open_engine_store("sqlite", tmp_path) as store:
        shop = ExportStoreBuilder(await store_kit.acquire_lease(store))
        waiting = []

        def work(raw_store=store):
            # what a service commits in the meantime
            connection = raw_store._connection  # noqa: SLF001  (a service's own writes)
            connection.command("BEGIN IMMEDIATE")
            for op in (
                exported.make_payments(shop, 3),
                *[shop.settle(item, 50_000_000) for item in waiting],
            ):
                run(op, connection.query)
            waiting.clear()
            connection.command("COMMIT")

        await store.write(exported.make_payments(shop, 1200))
        waiting.append(await store.write(shop.create_confirmed()))
        with exported.open_origin(database) as origin:
            shape = folder.ExportSpec(
                ExportFormat.JSONL, folder.select_tables((), origin.tables, personal=False), False
            )
            busy = exported.replace(origin, feeds=[Between(feed, work) for feed in origin.feeds])
            with folder.open_folder(out, shape, ORIGIN) as into:
                ExportRun(into, busy).export_all()
        # every posting has its payment and its transaction
        existing = {row["payment_id"] for row in read_rows(out, "payments")}
        for name in ("ledger", "transaction_items", "refunds"):
            assert {row["payment_id"] for row in read_rows(out, name)} - {None} <= existing
        export_store(database, out, "jsonl")
        export_store(database, tmp_path / "everything", "jsonl")
        assert read_tables(out) == read_tables(tmp_path / "everything")
        for name in ("events", "ledger"):
            assert len(read_rows(out, name)) == len(keep_newest(read_rows(out, name), name))


async def test_personal_data_is_exported_only_on_request(tmp_path):
    database = tmp_path / "florin.db"
    async with store_kit.open_engine_store("sqlite", tmp_path) as store:
        shop = ExportStoreBuilder(await store_kit.acquire_lease(store))
        created_payment = await store.write(shop.create_payment())
        place = f"{created_payment.id}|{PAYER}|form:abc"
        sealed = SEAL.encrypt(TOLD, place, shop.chance.randbytes)
        record = BuyerDataRecord(
            created_payment.id, PAYER, "form:abc", "app_1", sealed, shop.at_us, shop.at_us + 9
        )
        await store.write(collected_data.put([record]))
        for format_ in ("csv", "jsonl", "parquet"):
            export_store(database, tmp_path / format_, format_, seal=SEAL)
            assert held(tmp_path / format_) == set()
        personal = tmp_path / "personal"
        written = export_store(database, personal, "jsonl", personal=True, seal=SEAL)
        assert written["buyer_data"] == 1
        (row,) = read_rows(personal, "buyer_data")
        assert (row["account"], row["data"]) == (PAYER, TOLD.decode())
        (payment,) = read_rows(personal, "payments")
        assert payment["success_url"] == "https://shop.example/thanks"
        assert held(personal) == set(WORDS)
        # data deleted in the store is gone from the folder after the next run
        await store.write(collected_data.forget(shop.at_us + 9, 10))
        export_store(database, personal, "jsonl", personal=True, seal=SEAL)
        assert read_rows(personal, "buyer_data") == []
        assert held(personal) == {b"shop.example"}
        # data that can no longer be decrypted is exported as null
        lost = tmp_path / "lost"
        await store.write(collected_data.put([record]))
        export_store(database, lost, "jsonl", personal=True, seal=Cipher((b"x" * 32,)))
        assert [row["data"] for row in read_rows(lost, "buyer_data")] == [None]


def held(out):
    """Return which of the words an export contains."""
    content = [file.read_bytes() for file in out.rglob("*") if file.is_file()]
    # Parquet compresses, so read it through its reader
    content += [
        repr(frames.arrow(out, name).to_pylist()).encode()
        for name in folder.read_manifest(out).parts
    ]
    return {word for word in WORDS for item in content if word in item}
