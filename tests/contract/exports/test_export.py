"""Test that an export equals the store, to the last unit, and that each run adds the changes."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from decimal import Decimal
from random import Random

import pyarrow.parquet as pq
import pytest
from florin_server.accounts.store import customers
from florin_server.domain.payments.order import PaymentLine
from florin_server.domain.settlement.chain_txs import ReorgWatcher, WatchedTransaction
from florin_server.features.exports.service import frames
from florin_server.money.ledger.store import books
from florin_server.money.payments.store import payments
from florin_server.money.settlement.store import reorg

from tests.support import exported
from tests.support.exported import (
    FEE,
    MINUTE_US,
    export_store,
    keep_newest,
    read_rows,
    read_tables,
    sum_postings,
)
from tests.support.store_kit import ASSET, CHAIN, PAYER, U256_MAX

FORMATS = ["csv", "jsonl", "parquet"]


async def test_the_postings_of_an_export_are_those_of_the_ledger(store, shop, database, tmp_path):
    await store.write(exported.make_payments(shop, 100))
    written = export_store(database, tmp_path / "out", "jsonl")
    page = await store.read(books.list_balances(None, None, 10_000))
    assert page.last is None
    balances = {row[:2]: row[2] for row in page.balances}
    assert sum_postings(read_rows(tmp_path / "out", "ledger")) == balances
    paid = [row for row in read_rows(tmp_path / "out", "payments") if row["status"] == "succeeded"]
    assert sum(int(row["paid_minor"]) for row in paid) == 70 * 50_000_000
    assert -balances["income:fee", ASSET] == 70 * FEE
    assert written["payments"] == 100
    # all rows of one payment are from one moment
    events = read_rows(tmp_path / "out", "events")
    for row in read_rows(tmp_path / "out", "payments"):
        own = [event for event in events if event["payment_id"] == row["payment_id"]]
        assert [item["version"] for item in own] == list(range(row["version"] + 1))
        assert own[-1]["status"] == row["status"]


async def test_exported_row_contains_every_field(store, shop, database, tmp_path):
    order = {
        "description": "=1+1",
        "lines": (PaymentLine("Tea", 2, U256_MAX),),
        "metadata": (("order", "1001"),),
    }
    created = await store.write(shop.create_paid(**order))
    out = tmp_path / "out"
    export_store(database, out, "jsonl")
    (payment,) = read_rows(out, "payments")
    assert payment["created_at"] == "2027-01-15T08:01:00.000000Z"
    assert (payment["requested_minor"], payment["requested"]) == ("5000", "50.00")
    assert (payment["settled_minor"], payment["settled"]) == ("49999990", "49.999990")
    assert payment["description"] == "=1+1"
    assert json.loads(payment["lines"]) == [["Tea", 2, U256_MAX]]
    assert json.loads(payment["metadata"]) == {"order": "1001"}
    chosen, other = read_rows(out, "options")
    assert (chosen["chosen"], chosen["fetches"], other["chosen"]) == (True, 1, False)
    assert chosen["first_fetched_at"] == "2027-01-15T08:01:02.000000Z"
    (confirmed,) = read_rows(out, "confirmations")
    assert (confirmed["state"], confirmed["app"]) == ("done", "app_1")
    (tx,) = read_rows(out, "transactions")
    assert (tx["state"], tx["tx_hash"]) == ("final", payment["tx_hash"])
    (item,) = read_rows(out, "transaction_items")
    assert (item["tx_id"], item["payment_id"]) == (tx["tx_id"], created.id)
    (block,) = read_rows(out, "blocks")
    assert (block["chain_id"], block["block_number"]) == (CHAIN, tx["block_number"])
    gas = [row for row in read_rows(out, "ledger") if row["kind"] == "gas"]
    # the coin's decimals are unknown
    assert [(row["amount_minor"], row["amount"]) for row in gas] == [("21000000000000", None)]


@pytest.mark.parametrize("format_", FORMATS)
async def test_amounts_beyond_64_bits_survive(store, shop, database, tmp_path, format_):
    await store.write(shop.create_paid(U256_MAX))
    out = tmp_path / "out"
    export_store(database, out, format_)
    file = out / "payments" / f"000001.{format_}"
    if format_ == "csv":
        (row,) = csv.DictReader(file.read_text().splitlines())
    elif format_ == "jsonl":
        row = json.loads(file.read_text())
    else:
        (row,) = pq.read_table(file).to_pylist()
    assert int(row["paid_minor"]) == U256_MAX
    assert int(row["settled_minor"]) == U256_MAX - FEE
    if format_ == "parquet":
        # no Arrow decimal can contain it, and the value is never truncated
        assert row["paid"] is None
        assert row["requested"] == Decimal(50)
    else:
        assert row["paid"] == f"{str(U256_MAX)[:-6]}.{str(U256_MAX)[-6:]}"
    (result,) = frames.arrow(out, "payments").to_pylist()
    assert int(result["paid_minor"]) == U256_MAX


async def test_later_export_adds_new_and_changed_rows(store, shop, database, tmp_path):
    out = tmp_path / "out"
    await store.write(exported.make_payments(shop, 20))
    waiting = await store.write(shop.create_payment())
    under_way = await store.write(shop.create_confirmed())
    export_store(database, out, "jsonl")
    assert sum(export_store(database, out, "jsonl").values()) == 0
    # much later, so age alone finds nothing
    shop.at_us += 1000 * MINUTE_US
    await store.write(payments.expire([waiting.id], shop.at_us))
    await store.write(shop.settle(under_way, 50_000_000))
    back = await store.write(shop.refund(under_way, 50_000_000))
    await store.write(exported.make_payments(shop, 5))
    written = export_store(database, out, "jsonl")
    assert written["payments"] == 2 + 5
    assert written["refunds"] == written["payouts"] == 1
    assert [row["refund_id"] for row in read_rows(out, "refunds")] == [back]
    everything = tmp_path / "everything"
    export_store(database, everything, "jsonl")
    assert read_tables(out) == read_tables(everything)
    # rows that never change exist once; readers need not search for the newest
    for name in ("events", "ledger", "transaction_items", "blocks"):
        rows = read_rows(out, name)
        assert len(rows) == len(keep_newest(rows, name)) == len(read_rows(everything, name))


async def test_each_refund_of_a_payment_is_a_row(store, shop, database, tmp_path):
    out = tmp_path / "out"
    created = await store.write(shop.create_paid())
    parts = [await store.write(shop.refund(created, 20_000_000))]
    export_store(database, out, "jsonl")
    parts.append(await store.write(shop.refund(created, 30_000_000)))
    assert export_store(database, out, "jsonl")["refunds"] >= 1
    for folder in (out, tmp_path / "everything"):
        export_store(database, folder, "jsonl")
        rows = keep_newest(read_rows(folder, "refunds"), "refunds")
        assert sorted((row["refund_id"], row["payment_id"]) for row in rows) == sorted(
            (part, created.id) for part in parts
        )
        assert len(keep_newest(read_rows(folder, "payouts"), "payouts")) == 2


async def test_a_payment_with_an_earlier_time_may_come_late(store, shop, database, tmp_path):
    out = tmp_path / "out"
    await store.write(exported.make_payments(shop, 3))
    export_store(database, out, "jsonl")
    # its time is before those already exported, but it was committed later
    late = replace(shop, at_us=shop.at_us - 5 * MINUTE_US, seed=8)
    await store.write(late.create_paid())
    assert export_store(database, out, "jsonl")["payments"] == 1
    export_store(database, tmp_path / "everything", "jsonl")
    assert read_tables(out) == read_tables(tmp_path / "everything")


@pytest.mark.parametrize("seed", range(4))
async def test_incremental_exports_end_with_the_same_tables_as_a_full_export(
    store, shop, database, tmp_path, seed
):
    """Payments start and change in any order, with clocks that differ by minutes."""
    chance, out = Random(seed), tmp_path / "out"
    waiting, under_way, paid = [], [], []
    runs = 0
    for _ in range(60):
        # a later commit can have an earlier time
        late = replace(
            shop, at_us=shop.at_us - chance.randrange(8 * MINUTE_US), seed=chance.random()
        )
        late.count = shop.count = shop.count + 1
        step = chance.choice(["ask", "confirm", "pay", "settle", "expire", "refund", "wait", "run"])
        if step == "ask":
            waiting.append(await store.write(late.create_payment()))
        elif step == "confirm":
            under_way.append(await store.write(late.create_confirmed()))
        elif step == "pay":
            paid.append(await store.write(late.create_paid()))
        elif step == "settle" and under_way:
            created = under_way.pop(chance.randrange(len(under_way)))
            await store.write(late.settle(created, 50_000_000))
            paid.append(created)
        elif step == "expire" and waiting:
            item = waiting.pop(chance.randrange(len(waiting)))
            await store.write(payments.expire([item.id], item.expires_at * 1_000_000))
        elif step == "refund" and paid:
            await store.write(late.refund(paid.pop(chance.randrange(len(paid))), 50_000_000))
        elif step == "wait":
            shop.at_us += chance.randrange(30 * MINUTE_US)
        elif step == "run":
            runs += 1
            export_store(database, out, "jsonl")
    export_store(database, out, "jsonl")
    export_store(database, tmp_path / "everything", "jsonl")
    assert runs > 2
    assert read_tables(out) == read_tables(tmp_path / "everything")
    for name in ("events", "ledger", "transaction_items", "blocks"):
        assert len(read_rows(out, name)) == len(keep_newest(read_rows(out, name), name)), name


async def test_rows_reverted_by_a_reorg_are_exported_again(store, shop, database, tmp_path):
    out = tmp_path / "out"
    created = await store.write(shop.create_paid())
    ((tx_id, tx_hash),) = [
        (row["tx_id"], row["tx_hash"])
        for row in (
            export_store(database, tmp_path / "look", "jsonl"),
            read_rows(tmp_path / "look", "transactions"),
        )[1]
    ]
    await store.write(
        reorg.watch(CHAIN, ReorgWatcher.SETTLER, [WatchedTransaction(tx_hash, 12, "0xother")])
    )
    export_store(database, out, "jsonl")
    shop.at_us += 1000 * MINUTE_US
    await store.write(exported.make_payments(shop, 1))
    export_store(database, out, "jsonl")
    await store.write(reorg.undo_settlements(CHAIN, [tx_hash], ([created.id], [tx_id]), shop.at_us))
    written = export_store(database, out, "jsonl")
    assert (written["transactions"], written["confirmations"], written["ledger"]) == (1, 1, 3)
    export_store(database, tmp_path / "everything", "jsonl")
    both = read_tables(out), read_tables(tmp_path / "everything")
    # a replaced block stays in the export
    gone = [row for row in both[0].pop("blocks") if row not in both[1].pop("blocks", [])]
    assert gone
    assert both[0] == both[1]


async def test_parts_are_as_long_as_they_may_be(store, shop, database, tmp_path):
    await store.write(exported.make_payments(shop, 1500))
    out = tmp_path / "out"
    export_store(database, out, "jsonl", part_rows=1000)
    assert len(list((out / "events").iterdir())) > 2
    export_store(database, tmp_path / "one", "jsonl")
    assert read_tables(out) == read_tables(tmp_path / "one")
    for name, parts in json.loads((out / "export.json").read_bytes())["tables"].items():
        for file, rows in parts["parts"].items():
            result = (out / file).read_text().splitlines()
            assert len(result) == rows
            assert {json.loads(line)["part"] for line in result} <= {int(file[-12:-6])}, name


async def test_new_rows_may_go_elsewhere(store, shop, database, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    await store.write(exported.make_payments(shop, 10))
    export_store(database, first, "jsonl")
    await store.write(exported.make_payments(shop, 10))
    written = export_store(database, second, "parquet", since=first / "export.json")
    assert written["payments"] == 10
    # numbers continue: of rows with one key the highest number counts, in any folder
    assert [item.name for item in (second / "payments").iterdir()] == ["000002.parquet"]
    assert sum(export_store(database, second, "parquet").values()) == 0


async def test_blocks_without_hashes_are_distinguished_by_height(store, shop, database, tmp_path):
    shop.hashes = False
    for _ in range(2):
        await store.write(shop.create_paid())
    export_store(database, tmp_path / "out", "jsonl")
    blocks = keep_newest(read_rows(tmp_path / "out", "blocks"), "blocks")
    assert [(block["block_number"], block["block_hash"]) for block in blocks] == [
        (12, ""),
        (13, ""),
    ]


async def test_some_tables_may_be_enough(store, shop, database, tmp_path):
    await store.write(exported.make_payments(shop, 10))
    out = tmp_path / "out"
    assert export_store(database, out, "csv", "ledger", "payments").keys() == {"payments", "ledger"}
    assert {item.name for item in out.iterdir() if item.is_dir()} == {"payments", "ledger"}


async def test_a_store_without_rows_has_tables(store, database, tmp_path):
    for format_ in FORMATS:
        out = tmp_path / format_
        assert sum(export_store(database, out, format_).values()) == 0
        result = frames.arrow(out, "payments")
        assert result.num_rows == 0
        assert "requested_minor" in result.column_names


async def test_erased_data_is_not_exported(store, shop, database, tmp_path):
    waiting = await store.write(shop.create_payment())
    await store.write(customers.erase(PAYER, [waiting.id]))
    export_store(database, tmp_path / "out", "jsonl")
    assert read_rows(tmp_path / "out", "options") == []
