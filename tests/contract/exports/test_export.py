"""An export holds what the store holds, to the last unit, and each run adds what is new."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from decimal import Decimal
from random import Random

import pyarrow.parquet as pq
import pytest
from florin_server.domain.settlement.chain_txs import Watched, Watcher
from florin_server.flows.exports import frames
from florin_server.store.accounts import customers
from florin_server.store.ledger import books
from florin_server.store.payments import payments
from florin_server.store.settlement import reorg

from tests.support import exported
from tests.support.exported import FEE, MINUTE_US, export, lines, newest, sums, whole
from tests.support.store_kit import ASSET, CHAIN, PAYER, U256_MAX

FORMATS = ["csv", "jsonl", "parquet"]


async def test_the_postings_of_an_export_are_those_of_the_ledger(store, shop, database, tmp_path):
    await store.write(exported.many(shop, 100))
    written = export(database, tmp_path / "out", "jsonl")
    page = await store.read(books.list_balances(None, None, 10_000))
    assert page.last is None
    balances = {row[:2]: row[2] for row in page.balances}
    assert sums(lines(tmp_path / "out", "ledger")) == balances
    paid = [row for row in lines(tmp_path / "out", "payments") if row["status"] == "succeeded"]
    assert sum(int(row["paid_minor"]) for row in paid) == 70 * 50_000_000
    assert -balances["income:fee", ASSET] == 70 * FEE
    assert written["payments"] == 100
    # what belongs to one payment is of one moment
    events = lines(tmp_path / "out", "events")
    for row in lines(tmp_path / "out", "payments"):
        own = [one for one in events if one["payment_id"] == row["payment_id"]]
        assert [one["version"] for one in own] == list(range(row["version"] + 1))
        assert own[-1]["status"] == row["status"]


async def test_a_row_tells_all_that_is_known(store, shop, database, tmp_path):
    made = await store.write(shop.paid())
    out = tmp_path / "out"
    export(database, out, "jsonl")
    (payment,) = lines(out, "payments")
    assert payment["created_at"] == "2027-01-15T08:01:00.000000Z"
    assert (payment["requested_minor"], payment["requested"]) == ("5000", "50.00")
    assert (payment["settled_minor"], payment["settled"]) == ("49999990", "49.999990")
    chosen, other = lines(out, "options")
    assert (chosen["chosen"], chosen["fetches"], other["chosen"]) == (True, 1, False)
    assert chosen["first_fetched_at"] == "2027-01-15T08:01:02.000000Z"
    (confirmed,) = lines(out, "confirmations")
    assert (confirmed["state"], confirmed["app"]) == ("done", "app_1")
    (tx,) = lines(out, "transactions")
    assert (tx["state"], tx["tx_hash"]) == ("final", payment["tx_hash"])
    (item,) = lines(out, "transaction_items")
    assert (item["tx_id"], item["payment_id"]) == (tx["tx_id"], made.id)
    (block,) = lines(out, "blocks")
    assert (block["chain_id"], block["block_number"]) == (CHAIN, tx["block_number"])
    gas = [row for row in lines(out, "ledger") if row["kind"] == "gas"]
    # nobody told the decimals of the coin
    assert [(row["amount_minor"], row["amount"]) for row in gas] == [("21000000000000", None)]


@pytest.mark.parametrize("format_", FORMATS)
async def test_amounts_beyond_64_bits_survive(store, shop, database, tmp_path, format_):
    await store.write(shop.paid(U256_MAX))
    out = tmp_path / "out"
    export(database, out, format_)
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
        # no decimal of Arrow's holds it, and none is cut
        assert row["paid"] is None
        assert row["requested"] == Decimal(50)
    else:
        assert row["paid"] == f"{str(U256_MAX)[:-6]}.{str(U256_MAX)[-6:]}"
    (told,) = frames.arrow(out, "payments").to_pylist()
    assert int(told["paid_minor"]) == U256_MAX


async def test_a_later_run_adds_what_is_new_or_has_changed(store, shop, database, tmp_path):
    out = tmp_path / "out"
    await store.write(exported.many(shop, 20))
    waiting = await store.write(shop.asked())
    under_way = await store.write(shop.confirmed())
    export(database, out, "jsonl")
    assert sum(export(database, out, "jsonl").values()) == 0
    # much later: nothing is found for its age
    shop.at_us += 1000 * MINUTE_US
    await store.write(payments.expire([waiting.id], shop.at_us))
    await store.write(shop.settle(under_way, 50_000_000))
    back = await store.write(shop.refund(under_way, 50_000_000))
    await store.write(exported.many(shop, 5))
    written = export(database, out, "jsonl")
    assert written["payments"] == 2 + 5
    assert written["refunds"] == written["payouts"] == 1
    assert [row["refund_id"] for row in lines(out, "refunds")] == [back]
    everything = tmp_path / "everything"
    export(database, everything, "jsonl")
    assert whole(out) == whole(everything)
    # what never changes is there once, and needs nobody to look for the newest
    for name in ("events", "ledger", "transaction_items", "blocks"):
        rows = lines(out, name)
        assert len(rows) == len(newest(rows, name)) == len(lines(everything, name))


async def test_each_refund_of_a_payment_is_a_row(store, shop, database, tmp_path):
    out = tmp_path / "out"
    made = await store.write(shop.paid())
    parts = [await store.write(shop.refund(made, 20_000_000))]
    export(database, out, "jsonl")
    parts.append(await store.write(shop.refund(made, 30_000_000)))
    assert export(database, out, "jsonl")["refunds"] >= 1
    for folder in (out, tmp_path / "everything"):
        export(database, folder, "jsonl")
        rows = newest(lines(folder, "refunds"), "refunds")
        assert sorted((row["refund_id"], row["payment_id"]) for row in rows) == sorted(
            (part, made.id) for part in parts
        )
        assert len(newest(lines(folder, "payouts"), "payouts")) == 2


async def test_a_payment_with_an_earlier_time_may_come_late(store, shop, database, tmp_path):
    out = tmp_path / "out"
    await store.write(exported.many(shop, 3))
    export(database, out, "jsonl")
    # its time was taken before those that are there, and its commit waited
    late = replace(shop, at_us=shop.at_us - 5 * MINUTE_US, seed=8)
    await store.write(late.paid())
    assert export(database, out, "jsonl")["payments"] == 1
    export(database, tmp_path / "everything", "jsonl")
    assert whole(out) == whole(tmp_path / "everything")


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_in_between_the_tables_end_the_same(
    store, shop, database, tmp_path, seed
):
    """Payments come and go on in any order, with times that are minutes off."""
    chance, out = Random(seed), tmp_path / "out"
    waiting, under_way, paid = [], [], []
    runs = 0
    for _ in range(60):
        # whoever comes later may have taken its time before
        late = replace(
            shop, at_us=shop.at_us - chance.randrange(8 * MINUTE_US), seed=chance.random()
        )
        late.count = shop.count = shop.count + 1
        step = chance.choice(["ask", "confirm", "pay", "settle", "expire", "refund", "wait", "run"])
        if step == "ask":
            waiting.append(await store.write(late.asked()))
        elif step == "confirm":
            under_way.append(await store.write(late.confirmed()))
        elif step == "pay":
            paid.append(await store.write(late.paid()))
        elif step == "settle" and under_way:
            made = under_way.pop(chance.randrange(len(under_way)))
            await store.write(late.settle(made, 50_000_000))
            paid.append(made)
        elif step == "expire" and waiting:
            one = waiting.pop(chance.randrange(len(waiting)))
            await store.write(payments.expire([one.id], one.expires_at * 1_000_000))
        elif step == "refund" and paid:
            await store.write(late.refund(paid.pop(chance.randrange(len(paid))), 50_000_000))
        elif step == "wait":
            shop.at_us += chance.randrange(30 * MINUTE_US)
        elif step == "run":
            runs += 1
            export(database, out, "jsonl")
    export(database, out, "jsonl")
    export(database, tmp_path / "everything", "jsonl")
    assert runs > 2
    assert whole(out) == whole(tmp_path / "everything")
    for name in ("events", "ledger", "transaction_items", "blocks"):
        assert len(lines(out, name)) == len(newest(lines(out, name), name)), name


async def test_what_a_reorganisation_takes_back_is_written_again(store, shop, database, tmp_path):
    out = tmp_path / "out"
    made = await store.write(shop.paid())
    ((tx_id, tx_hash),) = [
        (row["tx_id"], row["tx_hash"])
        for row in (
            export(database, tmp_path / "look", "jsonl"),
            lines(tmp_path / "look", "transactions"),
        )[1]
    ]
    await store.write(reorg.watch(CHAIN, Watcher.SETTLER, [Watched(tx_hash, 12, "0xother")]))
    export(database, out, "jsonl")
    shop.at_us += 1000 * MINUTE_US
    await store.write(exported.many(shop, 1))
    export(database, out, "jsonl")
    await store.write(reorg.undo_settled(CHAIN, [tx_hash], ([made.id], [tx_id]), shop.at_us))
    written = export(database, out, "jsonl")
    assert (written["transactions"], written["confirmations"], written["ledger"]) == (1, 1, 3)
    export(database, tmp_path / "everything", "jsonl")
    both = whole(out), whole(tmp_path / "everything")
    # a block that is no more is still one that was
    gone = [row for row in both[0].pop("blocks") if row not in both[1].pop("blocks", [])]
    assert gone
    assert both[0] == both[1]


async def test_parts_are_as_long_as_they_may_be(store, shop, database, tmp_path):
    await store.write(exported.many(shop, 1500))
    out = tmp_path / "out"
    export(database, out, "jsonl", part_rows=1000)
    assert len(list((out / "events").iterdir())) > 2
    export(database, tmp_path / "one", "jsonl")
    assert whole(out) == whole(tmp_path / "one")
    for name, parts in json.loads((out / "export.json").read_bytes())["tables"].items():
        for file, rows in parts["parts"].items():
            told = (out / file).read_text().splitlines()
            assert len(told) == rows
            assert {json.loads(line)["part"] for line in told} <= {int(file[-12:-6])}, name


async def test_new_rows_may_go_elsewhere(store, shop, database, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    await store.write(exported.many(shop, 10))
    export(database, first, "jsonl")
    await store.write(exported.many(shop, 10))
    written = export(database, second, "parquet", since=first / "export.json")
    assert written["payments"] == 10
    # numbers go on: of rows with one key the highest counts, wherever it is
    assert [one.name for one in (second / "payments").iterdir()] == ["000002.parquet"]
    assert sum(export(database, second, "parquet").values()) == 0


async def test_blocks_without_hashes_are_told_apart_by_their_heights(
    store, shop, database, tmp_path
):
    shop.hashes = False
    for _ in range(2):
        await store.write(shop.paid())
    export(database, tmp_path / "out", "jsonl")
    blocks = newest(lines(tmp_path / "out", "blocks"), "blocks")
    assert [(one["block_number"], one["block_hash"]) for one in blocks] == [(12, ""), (13, "")]


async def test_some_tables_may_be_enough(store, shop, database, tmp_path):
    await store.write(exported.many(shop, 10))
    out = tmp_path / "out"
    assert export(database, out, "csv", "ledger", "payments").keys() == {"payments", "ledger"}
    assert {one.name for one in out.iterdir() if one.is_dir()} == {"payments", "ledger"}


async def test_a_store_without_rows_has_tables(store, database, tmp_path):
    for format_ in FORMATS:
        out = tmp_path / format_
        assert sum(export(database, out, format_).values()) == 0
        told = frames.arrow(out, "payments")
        assert told.num_rows == 0
        assert "requested_minor" in told.column_names


async def test_what_was_erased_is_not_exported(store, shop, database, tmp_path):
    waiting = await store.write(shop.asked())
    await store.write(customers.erase(PAYER, [waiting.id]))
    export(database, tmp_path / "out", "jsonl")
    assert lines(tmp_path / "out", "options") == []
