"""Test that stores of older releases migrate to the present schema with all their data."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from florin_server.accounts.store import merchants
from florin_server.db.engine import schema
from florin_server.db.tables.tables import METADATA
from florin_server.money.settlement.store import chain_txs

from tests.support.migrated import migrate_file, upgrade_finished
from tests.support.store_kit import (
    CHAIN,
    SENDER,
    create_chain_tx,
    create_processing_payment,
    make_chain_tx,
    open_engine_store,
)

# columns that these tests do not check
_FILLED = {"TEXT": "", "BIGINT": 0, "BLOB": b"", "BOOLEAN": False, "INTEGER": 0}
_ITEMS = "SELECT tx_id, n, payment_id, payout_id, kind, gas FROM chain_tx_item ORDER BY tx_id, n"
_OLD_ITEMS = "SELECT tx_id, n, payment_id, kind, gas FROM chain_tx_item ORDER BY tx_id, n"


def put(raw: sqlite3.Connection, table: str, **values: object) -> None:
    """Insert a row; fill the columns that must not be null."""
    columns = raw.execute(f"PRAGMA table_info({table})").fetchall()
    row = {
        name: _FILLED[kind]
        for _, name, kind, required, default, _ in columns
        if required and default is None
    } | values
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    raw.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def rows(path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(sql).fetchall()


@pytest.fixture
def old(tmp_path):
    """Create a v0012 store with a settlement of two payments, a payout, and a refund's payout."""
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    migrate_file(path, "v0012")
    with closing(sqlite3.connect(path)) as raw, raw:
        for n, payment_id in enumerate(("pay_1", "pay_2")):
            put(raw, "payment", id=payment_id, status="processing", value=str(n))
        for payout_id, kind in (("pout_1", "balance"), ("rfnd_1", "refund")):
            put(raw, "payout", id=payout_id, kind=kind, status="submitted", value="1")
        for n, tx_id in enumerate(("tx_1", "tx_2", "tx_3")):
            put(
                raw,
                "chain_tx",
                id=tx_id,
                chain_id=CHAIN,
                sender=SENDER,
                nonce=n,
                hash=f"0x{n}",
                state="signed",
            )
        items = [
            ("tx_1", 0, "pay_2", "key", 70_000),
            ("tx_1", 1, "pay_1", "code", 90_000),
            ("tx_2", 0, "pout_1", None, 0),
            ("tx_3", 0, "rfnd_1", None, 0),
        ]
        names = ("tx_id", "n", "payment_id", "kind", "gas")
        for item in items:
            put(raw, "chain_tx_item", **dict(zip(names, item, strict=True)))
    return path, items


async def test_payments_and_payouts_of_an_old_file_get_columns_of_their_own(old):
    path, items = old
    schema.prepare(path)
    assert rows(path, _ITEMS) == [
        ("tx_1", 0, "pay_2", None, "key", 70_000),
        ("tx_1", 1, "pay_1", None, "code", 90_000),
        ("tx_2", 0, None, "pout_1", None, 0),
        ("tx_3", 0, None, "rfnd_1", None, 0),
    ]
    assert rows(path, "PRAGMA foreign_key_check") == []
    async with open_engine_store("sqlite", path.parent) as store:
        settled, *paid_out = await store.read(chain_txs.list_open(CHAIN, SENDER))
    assert (settled.payment_ids, settled.payout_ids) == (("pay_2", "pay_1"), ())
    assert [share.gas for share in settled.gas_shares] == [70_000, 90_000]
    assert [tx.payout_ids for tx in paid_out] == [("pout_1",), ("rfnd_1",)]
    assert {tx.payment_ids for tx in paid_out} == {()}
    migrate_file(path, "v0012", down=True)
    assert rows(path, _OLD_ITEMS) == items


async def test_a_transaction_is_for_payments_and_payouts_that_are_there(tmp_path):
    async with open_engine_store("sqlite", tmp_path) as store:
        of = await create_processing_payment(store)
        await create_chain_tx(store, of)
        item = METADATA.tables["chain_tx_item"]
        assert len(rows(tmp_path / "florin.db", _ITEMS)) == 1
    with closing(sqlite3.connect(tmp_path / "florin.db")) as raw:
        raw.execute("PRAGMA foreign_keys=ON")
        for wrong in (
            {"payment_id": "pay_none"},
            {"payout_id": "pout_none"},
            {"payment_id": of.id, "payout_id": of.id},
            {},
        ):
            values = {"tx_id": make_chain_tx(of).id, "n": 7, **wrong}
            with pytest.raises(sqlite3.IntegrityError):
                put(raw, item.name, **values)


async def test_refunds_of_an_old_file_migrate_with_their_current_status(tmp_path):
    """Their earlier states were not recorded, and no event reports them."""
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    migrate_file(path, "v0019")
    with closing(sqlite3.connect(path)) as raw, raw:
        for n, status in enumerate(("processing", "succeeded")):
            of = {"id": f"pay_{n}", "partner_id": "par_1", "live": True, "status": "succeeded"}
            put(raw, "payment", **of, value="1250")
            back = {"id": f"rfnd_{n}", "payment_id": of["id"], "status": status, "value": "1"}
            put(raw, "refund", **back, created_at_us=5, completed_at_us=n * 9 or None)
        put(raw, "webhook_delivery", endpoint_id="whe_1", payment_id="pay_0", newest=1)
    schema.prepare(path)
    names = "payment_id, version, status, at_us, partner_id, live"
    assert rows(path, f"SELECT {names} FROM refund_event ORDER BY payment_id") == [
        ("pay_0", 1, "processing", 5, "par_1", 1),
        ("pay_1", 1, "succeeded", 9, "par_1", 1),
    ]
    columns = "id, version, ordinal, reason, payment_value"
    assert rows(path, f"SELECT {columns} FROM refund") == [
        ("rfnd_0", 1, 1, None, "1250"),
        ("rfnd_1", 1, 1, None, "1250"),
    ]
    assert rows(path, "SELECT refund_id FROM refund_event ORDER BY refund_id") == [
        ("rfnd_0",),
        ("rfnd_1",),
    ]
    assert rows(path, "SELECT newest, only_to, only_types FROM webhook_delivery") == [(1, -1, "")]
    migrate_file(path, "v0019", down=True)
    assert rows(path, "SELECT count(*) FROM refund") == [(2,)]


async def test_settlements_of_an_old_file_migrate_after_refund_events(tmp_path):
    """Events of refunds keep their positions, and all endpoints get the single format."""
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    migrate_file(path, "v0022")
    with closing(sqlite3.connect(path)) as raw, raw:
        paid = {"partner_id": "par_1", "status": "succeeded", "value": "9", "updated_at_us": 7}
        direct = {"option_unit": "caip19/a", "settled_value": "8", "tx_id": "0x1"}
        put(raw, "payment", id="pay_direct", **paid, **direct)
        put(raw, "payment", id="pay_owed", **paid, option_unit="caip19/a", tx_id="0x2")
        put(raw, "payment", id="pay_open", **{**paid, "status": "processing"})
        for version in (1, 2):
            put(raw, "refund_event", payment_id="pay_direct", version=version, status="pending")
        put(raw, "partner", id="par_1", version_pin="2026-02-18", status="active")
        endpoint = {"id": "whe_1", "partner_id": "par_1", "version": "2026-02-18"}
        put(raw, "webhook_endpoint", **endpoint, state="active")
    async with open_engine_store("sqlite", tmp_path) as store:
        await upgrade_finished(store)
    names = "payment_id, at_us, tx_id, unit, value, after_refunds, partner_id, live"
    assert rows(path, f"SELECT {names} FROM payment_settled") == [
        ("pay_direct", 7, "0x1", "caip19/a", "8", 2, "par_1", 0)
    ]
    assert rows(path, "SELECT version FROM webhook_endpoint") == [("2026-05-18",)]
    migrate_file(path, "v0022", down=True)
    assert rows(path, "SELECT version FROM webhook_endpoint") == [("2026-02-18",)]


async def test_payments_and_merchants_of_an_old_file_have_no_order_and_contact(tmp_path):
    path = tmp_path / "florin.db"
    path.touch(mode=0o600)
    migrate_file(path, "v0026")
    with closing(sqlite3.connect(path)) as raw, raw:
        put(raw, "payment", id="pay_1", status="processing", value="9")
        put(raw, "merchant", id="mrch_1", status="active")
    async with open_engine_store("sqlite", tmp_path) as store:
        payment = await store.payments.find("pay_1")
        merchant = await store.read(merchants.find_merchant("mrch_1"))
    assert (payment.description, payment.lines, payment.metadata) == (None, (), ())
    assert (merchant.support_email, merchant.support_url) == (None, None)
    migrate_file(path, "v0026", down=True)
    assert rows(path, "SELECT id FROM payment") == [("pay_1",)]
