"""Test the archive of old transactions: what leaves the store, and what nothing may delete."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import duckdb
import pytest
from florin_server.domain.archive import ArchiveError, get_archive_month
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.money.archive.service import parquet, writing
from florin_server.money.archive.service.customers import list_customer_payments
from florin_server.money.archive.store import closed_transactions, ended_transfers, files
from florin_server.money.archive.store.rows import TRANSACTION_TABLES
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.worker.adopt import check_history
from florin_server.money.x402 import store as facilitations
from florin_server.rails.types import TreasuryMention

from tests.support.archives import (
    BEFORE_US,
    create_ended_transaction,
    create_succeeded_payment,
    make_harness,
    read_transaction,
)
from tests.support.documents import list_blocks
from tests.support.store_factories import ASSET, CHAIN, NOW_US, PAYER, SENDER, execute_beside

EMPTY = {table.name: [] for table in TRANSACTION_TABLES}
DAY_US = 86_400_000_000


async def archive_payments(harness) -> None:
    await harness.write_all()
    await harness.remove_all()


async def test_transactions_leave_after_their_payments_as_they_are(store, tmp_path):
    paid = [await create_succeeded_payment(store) for _ in range(2)]
    final = await create_ended_transaction(store, *paid)
    replaced = await create_ended_transaction(store, state=TxState.REPLACED)
    before = [await read_transaction(store, tx) for tx in (final, replaced)]
    assert [len(before[0][table.name]) for table in TRANSACTION_TABLES] == [1, 2, 1]
    harness = make_harness(store, tmp_path / "archive")
    await archive_payments(harness)
    (file,) = await harness.write_transactions()
    # nothing is deleted before the file is registered
    assert await read_transaction(store, final) == before[0]
    assert await harness.remove_transactions() == 2
    for tx in (final, replaced):
        assert await read_transaction(store, tx) == EMPTY
    path = tmp_path / "archive" / file.name
    (archived,) = parquet.iterate_rows(path, TRANSACTION_TABLES, 10)
    assert archived == {name: sorted(before[0][name] + before[1][name]) for name in EMPTY}
    month = get_archive_month(NOW_US).name
    assert re.fullmatch(rf"transactions/{month}/[0-9]{{8}}-[0-9a-f]{{8}}\.parquet", file.name)
    assert (file.month, file.payments, file.has_transactions) == (month, 2, True)
    entry = harness.archive.folder.read_manifest(file.folder)[path.name]
    assert entry["rows"] == {"transaction": 2, "items": 2, "variants": 2}
    assert path.stat().st_mode & 0o777 == 0o600
    assert {path.parent.stat().st_mode & 0o777, path.parent.parent.stat().st_mode & 0o777} == {
        0o700
    }
    registered = await store.read(files.list_files(0, 10))
    assert file in [replace(each, removed_at_us=None) for each in registered]
    assert [each.name for each in registered] == harness.archive.folder.list_names()
    of_payer = list_customer_payments(harness.archive.folder, registered, PAYER, ())
    assert {payment.id for payment in of_payer} == {payment.id for payment in paid}
    assert await store.read(ledger.check()) == []


def add_payout(tx, status: str, completed: str = "NULL", payment_id: str = "") -> list[str]:
    """Return the statements that make a payout the transaction's only item."""
    payment = f"'{payment_id}'" if payment_id else "NULL"
    values = (
        f"'po_1', 'balance', 'mer_1', {payment}, false, '{CHAIN}', '{ASSET}', '5', '{PAYER}', 1, "
        f"'{status}', 0, NULL, '{tx.hash}', {completed}, NULL, true, NULL, NULL"
    )
    return [
        f"INSERT INTO payout VALUES ({values})",
        f"INSERT INTO chain_tx_item VALUES ('{tx.id}', 7, NULL, 'po_1', NULL, 0)",
    ]


def add_transfer(tx_hash: str | None, state: str, payment: str = "NULL", **times: int) -> str:
    tx_id = "NULL" if tx_hash is None else f"'{tx_hash}'"
    ended_us = times.get("ended_us", NOW_US) if state in {"succeeded", "failed"} else "NULL"
    expires = times.get("expires", NOW_US // 1_000_000)
    return (
        f"INSERT INTO facilitation VALUES ('key-{state}', '{CHAIN}', 'key', {payment}, '{ASSET}', "
        f"'{PAYER}', '{PAYER}', '5', '{{}}', 1, {expires}, 1, '{state}', {tx_id}, NULL, "
        f"{NOW_US}, {ended_us})"
    )


def watch(tx_hash: str) -> str:
    return f"INSERT INTO watched_tx VALUES ('{CHAIN}', '{tx_hash}', 'settler', 1, '0x')"


def name_in_payment(payment, tx_hash: str) -> str:
    """Return the statement of a transfer by x402, which is no item."""
    return f"UPDATE payment SET tx_id = '{tx_hash}' WHERE id = '{payment.id}'"


def set_aside(tx) -> str:
    columns = "id, kind, chain_id, subject, step, reason, state, attempts, first_at_us, last_at_us"
    item = f"'q_1', 'transaction', '{CHAIN}', '{tx.id}', 'end', 'x', 'set_aside', 1, 0, 0"
    return f"INSERT INTO quarantined_item ({columns}) VALUES ({item})"


def add_open(nonce: int) -> str:
    """Return the statement of an open transaction of the same sender."""
    values = f"'{CHAIN}', '{SENDER}', {nonce}, '', '0xopen', 'sent', {NOW_US}"
    columns = "id, chain_id, sender, nonce, raw, hash, state, created_at_us"
    return f"INSERT INTO chain_tx ({columns}) VALUES ('tx_open', {values})"


# what can need a transaction: statements about it and a payment that stays in the store
NEEDS = {
    "not final": lambda tx, _: f"UPDATE chain_tx SET state = 'sent' WHERE id = '{tx.id}'",
    "a payment in the store": lambda tx, payment: (
        f"INSERT INTO chain_tx_item VALUES ('{tx.id}', 7, '{payment.id}', NULL, NULL, 0)"
    ),
    "a payment by x402": lambda tx, payment: name_in_payment(payment, tx.hash),
    "watched": lambda tx, _: watch(tx.hash),
    "a payout that waits": lambda tx, _: add_payout(tx, "waiting"),
    "a payout without an end": lambda tx, _: add_payout(tx, "done"),
    "a payout that was sent": lambda tx, _: add_payout(tx, "submitted", str(NOW_US)),
    "a payout that ended lately": lambda tx, _: add_payout(tx, "done", str(BEFORE_US)),
    "a payment's refund": lambda tx, payment: add_payout(tx, "done", str(NOW_US), payment.id),
    "a transfer": lambda tx, _: add_transfer(tx.hash, "sent"),
    "quarantined": lambda tx, _: set_aside(tx),
    "an open transaction before it": lambda tx, _: add_open(tx.nonce - 1),
    "an open transaction with its nonce": lambda tx, _: add_open(tx.nonce),
    "a nonce to use again": lambda tx, _: (
        f"UPDATE relayer SET next_nonce = {tx.nonce} WHERE sender = '{SENDER}'"
    ),
    "an unknown sender": lambda _tx, _: f"DELETE FROM relayer WHERE sender = '{SENDER}'",
    "a treasury with a history": lambda *_: (
        f"INSERT INTO installation VALUES ('history:{CHAIN}:{SENDER}', '0xlast')"
    ),
}
# a hash that is recorded once: as that of a variant, or as the mined one
ONLY = {
    "a variant": "UPDATE chain_tx SET final_hash = NULL WHERE id = '{}'",
    "the mined one": "DELETE FROM chain_tx_bump WHERE tx_id = '{}'",
}
RAISED = {
    "a payment by x402": lambda tx_hash, payment: name_in_payment(payment, tx_hash),
    "a transfer": lambda tx_hash, _: add_transfer(tx_hash, "succeeded"),
    "watched": lambda tx_hash, _: watch(tx_hash),
}
# what does not need it
HARMLESS = {
    "a payout that ended": lambda tx, _: add_payout(tx, "done", str(NOW_US)),
    "a payout that was refused": lambda tx, _: add_payout(tx, "refused", str(NOW_US)),
    "an open transaction after it": lambda tx, _: add_open(tx.nonce + 1),
    "watched elsewhere": lambda tx, _: watch(tx.hash).replace(CHAIN, "eip155:1"),
    "a history of another": lambda *_: (
        f"INSERT INTO installation VALUES ('history:{CHAIN}:0xthird', '0xlast')"
    ),
}


async def apply_need(store, tmp_path, need, tx, payment) -> None:
    statements = need(tx, payment)
    for statement in [statements] if isinstance(statements, str) else statements:
        await execute_beside(store, tmp_path, statement)


@pytest.fixture
async def old(store):
    """Return a transaction that nothing needs, one of another sender, and a payment that stays."""
    tx = await create_ended_transaction(store)
    other = await create_ended_transaction(store, sender="0xother")
    return tx, other, await create_succeeded_payment(store)


@pytest.mark.parametrize("need", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("is_written", [False, True], ids=["before it is read", "after it"])
async def test_a_transaction_stays_while_something_needs_it(store, tmp_path, old, need, is_written):
    tx, other, payment = old
    harness = make_harness(store, tmp_path / "archive")
    if is_written:
        await harness.write_transactions()
    await apply_need(store, tmp_path, need, tx, payment)
    before = await read_transaction(store, tx)
    await harness.write_transactions()
    assert await harness.remove_transactions() == 1
    assert await read_transaction(store, tx) == before
    assert await read_transaction(store, other) == EMPTY


class EmptyHistory:
    """The history of a treasury that has sent nothing yet."""

    async def list_mentions(self, signature: str) -> list[TreasuryMention]:
        assert not signature
        return []


async def test_a_treasury_whose_history_is_checked_keeps_its_transactions(store, tmp_path, old):
    tx, other, _ = old
    rail = SimpleNamespace(chain_id=CHAIN, treasury_history=EmptyHistory())
    key = SimpleNamespace(account=f"{CHAIN}:{SENDER}", address=SENDER)
    harness = make_harness(store, tmp_path / "archive")
    for _ in range(2):
        await check_history(harness, rail, SimpleNamespace(key=key))
    await harness.write_transactions()
    assert await harness.remove_transactions() == 1
    assert await read_transaction(store, tx) != EMPTY
    assert await read_transaction(store, other) == EMPTY


@pytest.mark.parametrize("need", RAISED.values(), ids=RAISED)
@pytest.mark.parametrize("change", ONLY.values(), ids=ONLY)
async def test_a_transaction_stays_while_the_hash_of_a_higher_fee_is_needed(
    store, tmp_path, old, need, change
):
    tx, _, payment = old
    await execute_beside(store, tmp_path, change.format(tx.id))
    await execute_beside(store, tmp_path, need(f"{tx.hash}-raised", payment))
    before = await read_transaction(store, tx)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_transactions()
    assert await harness.remove_transactions() == 1
    assert await read_transaction(store, tx) == before


@pytest.mark.parametrize("case", HARMLESS.values(), ids=HARMLESS)
async def test_a_transaction_leaves_despite_what_does_not_need_it(store, tmp_path, old, case):
    tx, _, payment = old
    await apply_need(store, tmp_path, case, tx, payment)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_transactions()
    assert await harness.remove_transactions() == 2
    assert await read_transaction(store, tx) == EMPTY


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chain_tx SET block_number = 8 WHERE id = '{}'",
        "UPDATE chain_tx SET final_hash = NULL WHERE id = '{}'",
        "INSERT INTO chain_tx_bump SELECT id, 5, raw, '0xlast', 1 FROM chain_tx WHERE id = '{}'",
        "DELETE FROM chain_tx_bump WHERE tx_id = '{}'",
        "INSERT INTO chain_tx_item VALUES ('{}', 7, 'pay_gone', NULL, NULL, 0)",
    ],
)
async def test_a_transaction_that_changed_after_it_was_read_stays(store, tmp_path, change):
    tx = await create_ended_transaction(store)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_transactions()
    await execute_beside(store, tmp_path, change.format(tx.id))
    before = await read_transaction(store, tx)
    assert await harness.remove_transactions() == 0
    assert await read_transaction(store, tx) == before
    # the next pass has it as it is now
    (file,) = await harness.write_transactions()
    assert await harness.remove_transactions() == 1
    path = tmp_path / "archive" / file.name
    assert list(parquet.iterate_rows(path, TRANSACTION_TABLES, 10)) == [before]


async def test_files_hold_one_month_and_the_current_months_stay(store, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "PAGE", 2)
    monkeypatch.setattr(writing, "FILE_MAX", 4)
    days_of_all = (0, 0, 0, 0, 0, 31, 31, 95)
    created = [
        await create_ended_transaction(store, created_at_us=NOW_US + days * DAY_US)
        for days in days_of_all
    ]
    harness = make_harness(store, tmp_path / "archive")
    written = await harness.write_transactions()
    months = [get_archive_month(NOW_US + days * DAY_US).name for days in (0, 0, 31)]
    assert [(file.month, file.payments) for file in written] == list(
        zip(months, (4, 1, 2), strict=True)
    )
    assert await harness.remove_transactions() == 7
    (position,) = await store.read(
        closed_transactions.list_positions(closed_transactions.FIRST, 2**62, 10)
    )
    assert position == (created[-1].created_at_us, created[-1].id)


async def test_the_document_says_how_to_search_files_by_a_hash(store, tmp_path):
    tx = await create_ended_transaction(store)
    await create_ended_transaction(store)
    harness = make_harness(store, tmp_path / "archive")
    await harness.write_transactions()
    (query,) = [block.text for block in list_blocks() if "list_contains" in block.text]
    query = query.replace("florin-archive/", f"{tmp_path}/archive/").replace("/2026-", "/2027-")
    for tx_hash in (tx.hash, f"{tx.hash}-raised"):
        ((tx_id, *_),) = duckdb.sql(query.replace("0x…", tx_hash)).fetchall()
        assert tx_id == tx.id


@pytest.mark.parametrize("damage", ["content", "missing", "manifest"])
async def test_an_altered_file_of_transactions_deletes_nothing(store, tmp_path, damage):
    tx = await create_ended_transaction(store)
    before = await read_transaction(store, tx)
    harness = make_harness(store, tmp_path / "archive")
    (file,) = await harness.write_transactions()
    path = tmp_path / "archive" / file.name
    if damage == "content":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    elif damage == "missing":
        path.unlink()
    else:
        (path.parent / "manifest.json").unlink()
    with pytest.raises(ArchiveError, match="manifest.json|parquet"):
        await harness.remove_transactions()
    assert await read_transaction(store, tx) == before


async def delete_transfers(store) -> None:
    """Look at all transfers, one at a time."""
    key: str | None = ""
    while key is not None:
        key = await store.write(ended_transfers.delete_ended(key, BEFORE_US, 1))


@pytest.mark.parametrize("state", ["succeeded", "failed"])
async def test_transfers_for_others_are_deleted_once_they_are_over(store, tmp_path, state):
    tx = await create_ended_transaction(store)
    await execute_beside(store, tmp_path, add_transfer(tx.hash, state))
    await execute_beside(store, tmp_path, add_transfer(tx.hash, "waiting"))
    await delete_transfers(store)
    assert await store.read(facilitations.find_facilitation(f"key-{state}")) is None
    assert await store.read(facilitations.find_facilitation("key-waiting")) is not None


@pytest.mark.parametrize(
    "statements",
    [
        [add_transfer("0x1", "waiting")],
        [add_transfer("0x1", "sent")],
        [add_transfer("0x1", "succeeded", "'pay_1'")],
        [add_transfer("0x1", "failed", "'pay_1'")],
        [add_transfer("0x1", "failed", ended_us=BEFORE_US)],
        # its signature can still be used
        [add_transfer(None, "failed", expires=BEFORE_US // 1_000_000)],
        [add_transfer("0x1", "succeeded"), watch("0x1")],
        [add_transfer("0xopen", "succeeded"), add_open(5)],
        [
            add_transfer("0xraised", "succeeded"),
            add_open(5),
            "INSERT INTO chain_tx_bump VALUES ('tx_open', 0, '', '0xraised', 1)",
        ],
    ],
)
async def test_transfers_stay_while_they_can_be_repeated(store, tmp_path, statements):
    for statement in statements:
        await execute_beside(store, tmp_path, statement)
    await delete_transfers(store)
    assert len(await execute_beside(store, tmp_path, "SELECT key FROM facilitation")) == 1
