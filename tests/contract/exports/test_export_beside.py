"""An export beside a store that works: nobody waits for it, and it sees whole payments."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from florin_server.domain.exports.tables import TABLES
from florin_server.domain.sealed import Seal
from florin_server.flows.exports import folder, frames
from florin_server.flows.exports.formats import Format
from florin_server.flows.exports.run import Run
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Collected
from florin_server.store.engine.query import run
from florin_server.store.exports import roots

from tests.support import exported, store_kit
from tests.support.exported import ORIGIN, Shop, export, lines, newest, whole
from tests.support.store_kit import PAYER

SEAL = Seal((b"k" * 32,))
TOLD = b'{"fullName":"Ada Lovelace","porAddress":"12 St James Square"}'
WORDS = (b"Ada Lovelace", b"St James", b"fullName", b"shop.example")


class Between:
    """A feed that does something after each page, while its reader is busy writing."""

    def __init__(self, feed, act):
        self.name, self.tables, self.whole = feed.name, feed.tables, feed.whole
        self.some = feed.some
        self._feed, self._act = feed, act

    def pages(self, after: str, since_us: int) -> roots.Page:
        page = self._feed.pages(after, since_us)
        self._act()
        return page


async def test_pages_hold_nothing_of_the_store(tmp_path):
    """The log of the store is folded into its file, and emptied, between any two pages."""
    database = tmp_path / "florin.db"
    async with store_kit.opened("sqlite", tmp_path) as store:
        shop = Shop(await store_kit.leased(store))
        await store.write(exported.many(shop, 1200))
        emptied = []

        def work():
            with closing(sqlite3.connect(database, isolation_level=None)) as raw:
                # one payment that goes on, as a busy service would have it
                raw.execute("UPDATE lease SET until_us = until_us + 1")
                ((busy, left, _),) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                emptied.append((busy, left))

        with exported.origin(database) as found:
            busy = [Between(feed, work) for feed in found.feeds]
            shape = folder.Shape(Format.JSONL, tuple(TABLES[n] for n in found.tables), False)
            origin = exported.replace(found, feeds=busy)
            with folder.opened(tmp_path / "out", shape, ORIGIN) as into:
                Run(into, origin).all()
        assert len(emptied) > 5
        assert set(emptied) == {(0, 0)}


async def test_a_run_that_goes_on_a_day_later_finds_what_came_before_its_place(tmp_path):
    """Keys of journals and transactions come in no order: new ones are where it has been."""
    database, out = tmp_path / "florin.db", tmp_path / "out"
    async with store_kit.opened("sqlite", tmp_path) as store:
        shop = Shop(await store_kit.leased(store))
        await store.write(exported.many(shop, 1200))
        shape = folder.Shape(Format.JSONL, folder.named((), set(TABLES), personal=False), False)
        left = [2]

        def die():
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("killed")

        with exported.origin(database, now_us=shop.at_us) as found:
            dying = exported.replace(found, feeds=[Between(feed, die) for feed in found.feeds])
            with (
                pytest.raises(RuntimeError, match="killed"),
                folder.opened(out, shape, ORIGIN) as into,
            ):
                Run(into, dying, part_rows=1).all()
        assert folder.read(out).cursor.mark("ledger").after is not None
        shop.at_us += 1440 * exported.MINUTE_US
        await store.write(exported.many(shop, 600))
        shop.at_us += 1440 * exported.MINUTE_US
        for _ in range(2):
            with (
                exported.origin(database, now_us=shop.at_us) as found,
                folder.opened(out, shape, ORIGIN) as into,
            ):
                Run(into, found).all()
            await store.write(exported.many(shop, 1))
        export(database, out, "jsonl")
        export(database, tmp_path / "everything", "jsonl")
        assert whole(out) == whole(tmp_path / "everything")
        assert len(lines(out, "ledger")) == len(newest(lines(out, "ledger"), "ledger"))


async def test_what_comes_while_it_is_read_is_there_once_in_the_end(tmp_path):
    database, out = tmp_path / "florin.db", tmp_path / "out"
    async with store_kit.opened("sqlite", tmp_path) as store:
        shop = Shop(await store_kit.leased(store))
        waiting = []

        def work(raw_store=store):
            # what a service commits meanwhile
            connection = raw_store._connection  # noqa: SLF001  (a service's own writes)
            connection.command("BEGIN IMMEDIATE")
            for op in (exported.many(shop, 3), *[shop.settle(one, 50_000_000) for one in waiting]):
                run(op, connection.query)
            waiting.clear()
            connection.command("COMMIT")

        await store.write(exported.many(shop, 1200))
        waiting.append(await store.write(shop.confirmed()))
        with exported.origin(database) as found:
            shape = folder.Shape(
                Format.JSONL, folder.named((), found.tables, personal=False), False
            )
            busy = exported.replace(found, feeds=[Between(feed, work) for feed in found.feeds])
            with folder.opened(out, shape, ORIGIN) as into:
                Run(into, busy).all()
        # no posting is there whose payment is not, nor a transaction
        known = {row["payment_id"] for row in lines(out, "payments")}
        for name in ("ledger", "transaction_items", "refunds"):
            assert {row["payment_id"] for row in lines(out, name)} - {None} <= known
        export(database, out, "jsonl")
        export(database, tmp_path / "everything", "jsonl")
        assert whole(out) == whole(tmp_path / "everything")
        for name in ("events", "ledger"):
            assert len(lines(out, name)) == len(newest(lines(out, name), name))


async def test_personal_data_is_there_only_if_it_is_asked_for(tmp_path):
    database = tmp_path / "florin.db"
    async with store_kit.opened("sqlite", tmp_path) as store:
        shop = Shop(await store_kit.leased(store))
        made = await store.write(shop.asked())
        place = f"{made.id}|{PAYER}|form:abc"
        sealed = SEAL.close(TOLD, place, shop.chance.randbytes)
        told = Collected(made.id, PAYER, "form:abc", "app_1", sealed, shop.at_us, shop.at_us + 9)
        await store.write(collected_data.put([told]))
        for format_ in ("csv", "jsonl", "parquet"):
            export(database, tmp_path / format_, format_, seal=SEAL)
            assert held(tmp_path / format_) == set()
        personal = tmp_path / "personal"
        written = export(database, personal, "jsonl", personal=True, seal=SEAL)
        assert written["buyer_data"] == 1
        (row,) = lines(personal, "buyer_data")
        assert (row["account"], row["data"]) == (PAYER, TOLD.decode())
        (payment,) = lines(personal, "payments")
        assert payment["success_url"] == "https://shop.example/thanks"
        assert held(personal) == set(WORDS)
        # what is deleted in the store is gone from the folder with the next run
        await store.write(collected_data.forget(shop.at_us + 9, 10))
        export(database, personal, "jsonl", personal=True, seal=SEAL)
        assert lines(personal, "buyer_data") == []
        assert held(personal) == {b"shop.example"}
        # and what cannot be read any more is told as that
        lost = tmp_path / "lost"
        await store.write(collected_data.put([told]))
        export(database, lost, "jsonl", personal=True, seal=Seal((b"x" * 32,)))
        assert [row["data"] for row in lines(lost, "buyer_data")] == [None]


def held(out):
    """Which of the words are anywhere in an export."""
    content = [file.read_bytes() for file in out.rglob("*") if file.is_file()]
    # what Parquet compresses is read as its readers do
    content += [
        repr(frames.arrow(out, name).to_pylist()).encode() for name in folder.read(out).parts
    ]
    return {word for word in WORDS for one in content if word in one}
