"""Test that one server at a time has a store, and that the migrations make its tables."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sqlite3
import sys

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from florin_server.accounts.store import (
    credential_checks,
    customers,
    destinations,
    key_uses,
    keys,
    merchants,
    pins,
    sign_outs,
)
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.screening import store as blocklists
from florin_server.db import generations
from florin_server.db.engine import schema
from florin_server.db.engine.query import CoreStatement, StoreError
from florin_server.db.engine.sqlite import SqliteConnection, StoreLocked
from florin_server.db.migrations import config
from florin_server.features.exports.store import ledger as exports_ledger
from florin_server.features.exports.store import money_out as exports_money_out
from florin_server.features.exports.store import payments as exports_payments
from florin_server.features.exports.store import transactions as exports_transactions
from florin_server.features.exports.store import watched as exports_watched
from florin_server.features.monitoring.store import node_hours, runways
from florin_server.features.receipts import store as receipt_keys
from florin_server.features.reports.store import journals as report_journals
from florin_server.features.webhooks.store import claims, deliveries, endpoints, replays
from florin_server.features.webhooks.store import health as webhook_health
from florin_server.idempotency.store import key_leases as key_turns
from florin_server.idempotency.store import responses as idempotency
from florin_server.limits import store as sharing
from florin_server.money.ledger.store import books, ledger
from florin_server.money.open_store import open_store
from florin_server.money.outbox.store import events, outbox
from florin_server.money.payments.store import (
    deposit_addresses,
    deposit_events,
    deposits,
    effects,
    new_options,
    offered_options,
    offered_transfers,
    payments,
    simulation,
    watched_addresses,
)
from florin_server.money.payments.store import notes as payment_notes
from florin_server.money.payouts.store import deposit_claims, held_money
from florin_server.money.refunds import store as refunds
from florin_server.money.settlement.store import (
    chain_txs,
    gas,
    payment_outcomes,
    settlement_items,
    token_accounts,
)
from florin_server.money.x402 import store as facilitations
from florin_server.operations.store import audit_log, executors, leases
from sqlalchemy import create_engine
from sqlalchemy.dialects.postgresql.asyncpg import dialect as postgresql

from tests.support.store_factories import create_payment, open_engine_store, run_pragma

OPERATIONS = (
    audit_log,
    deposit_addresses,
    deposit_claims,
    deposit_events,
    deposits,
    claims,
    collected_data,
    customers,
    deliveries,
    effects,
    endpoints,
    events,
    executors,
    generations,
    held_money,
    idempotency,
    gas,
    chain_txs,
    key_turns,
    key_uses,
    keys,
    leases,
    ledger,
    merchants,
    node_hours,
    offered_options,
    offered_transfers,
    outbox,
    new_options,
    payment_outcomes,
    payments,
    pins,
    payment_notes,
    token_accounts,
    webhook_health,
    receipt_keys,
    refunds,
    report_journals,
    replays,
    runways,
    sharing,
    sign_outs,
    blocklists,
    books,
    destinations,
    settlement_items,
    simulation,
    credential_checks,
    watched_addresses,
    facilitations,
)
EXPORTS = (
    exports_ledger,
    exports_money_out,
    exports_payments,
    exports_transactions,
    exports_watched,
)
STATEMENTS = {
    # by noun, where the store is a single module
    f"{'exports_' if module in EXPORTS else ''}"
    f"{module.__name__.removesuffix('.store').rpartition('.')[2]}{name}": result
    for module in (*OPERATIONS, *EXPORTS)
    for name, result in inspect.getmembers(module)
    if isinstance(result, CoreStatement)
}
# small tables, and rare queries that read every row
READS_ALL = {
    "books_BUSY",
    "books_ENTRIES",
    "claims_CLAIMED",
    "claims_DUE",
    "claims_FREE",
    "customers_CLAIMED",
    "customers_LIST_CLAIMS",
    "customers_OFFERED",
    "customers_PAID",
    "deliveries_FIGURES",
    "deliveries_PAUSED",
    "destinations_LIST_BY_ACCOUNTS",
    "endpoints_LIST",
    "executors_PAUSES",
    "generations_ALL",
    "held_money_ALL",
    "keys_APPS",
    "keys_HAS_LIVE_KEY",
    "key_uses_LIST",
    "keys_KEYS",
    "leases_FREE",
    "leases_LIST",
    "ledger_JOURNALS",
    "ledger_TRANSFERS",
    "limits_PROCESSES",
    "merchants_ANY_PARTNER",
    "merchants_PARTNERS",
    "node_hours_FORGET",
    "node_hours_LIST",
    "receipts_ALL",
    "receipts_LOCK",
    "screening_LISTS",
    "key_leases_TAKE",
    "watched_addresses_OLDER",
    "x402_FORGET",
    "deposit_addresses_OLDER",
}


def shape(path):
    with sqlite3.connect(path) as raw:
        rows = raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        version = raw.execute("SELECT version_num FROM alembic_version").fetchall()
    raw.close()
    return {name: re.sub(r"\s+|(?<=\()\s|\s(?=\))", "", sql) for name, sql in rows}, version


def old_file(path, *versions):
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        raw.executemany("INSERT INTO alembic_version VALUES (?)", [(v,) for v in versions])
    raw.close()


async def test_open_store_is_refused_to_a_second_server(tmp_path):
    async with open_engine_store("sqlite", tmp_path) as store:
        assert store.is_exclusive
        with pytest.raises(StoreLocked, match="another server"):
            await open_store(tmp_path / "florin.db")
        of = await create_payment(store)
    async with open_engine_store("sqlite", tmp_path) as store:
        assert await store.payments.find(of.id) == of


def test_another_process_is_refused_too(tmp_path):
    async def refused():
        with pytest.raises(StoreLocked):
            await open_store(tmp_path / "florin.db")

    async def main():
        async with open_engine_store("sqlite", tmp_path):
            if (child := os.fork()) == 0:
                code = 1
                try:
                    asyncio.set_event_loop(None)
                    # a fork inherits the running loop
                    asyncio.events._set_running_loop(None)  # noqa: SLF001  (there is no other way)
                    asyncio.run(refused())
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0  # noqa: ASYNC222  (nothing else runs here)

    asyncio.run(main())


async def test_a_store_that_could_not_be_opened_is_not_left_locked(tmp_path):
    (tmp_path / "florin.db").write_bytes(b"not a database, however long it may be" * 100)
    for _ in range(2):
        with pytest.raises(StoreError, match="not a database"):
            await open_store(tmp_path / "florin.db")


async def test_a_new_store_is_its_owners_alone_and_loses_nothing_to_a_power_cut(tmp_path):
    async with open_engine_store("sqlite", tmp_path) as store:
        await create_payment(store)
        files = list(tmp_path.iterdir())
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert {path.name for path in files} >= {"florin.db", "florin.db-wal"}
        assert run_pragma(store, "synchronous") == [(2,)]
        assert run_pragma(store, "journal_mode") == [("wal",)]


async def test_a_new_file_needs_no_migration(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "florin_server.db.migrations", None)
    for _ in range(2):
        async with open_engine_store("sqlite", tmp_path) as store:
            await create_payment(store)


async def test_migrations_make_the_same_tables_as_a_new_file_gets(tmp_path):
    schema.prepare(tmp_path / "new.db")
    schema.prepare(tmp_path / "new.db")
    old_file(tmp_path / "florin.db")
    async with open_engine_store("sqlite", tmp_path) as store:
        await create_payment(store)
    new, version = shape(tmp_path / "new.db")
    migrated, migrated_version = shape(tmp_path / "florin.db")
    new.pop("alembic_version")
    migrated.pop("alembic_version")
    assert migrated == new
    assert migrated_version == version == [(schema.HEAD,)]


# the test above compares their text
@pytest.mark.filterwarnings("ignore:.*expression-based index")
def test_the_models_have_no_change_without_a_migration(tmp_path):
    schema.prepare(tmp_path / "new.db")
    engine = create_engine(f"sqlite:///{tmp_path / 'new.db'}")
    with engine.begin() as connection:
        settings = config(connection)
        assert ScriptDirectory.from_config(settings).get_heads() == [schema.HEAD]
        command.check(settings)
        command.downgrade(settings, "base")
        command.upgrade(settings, "head")
        command.check(settings)
    engine.dispose()


@pytest.mark.parametrize("folder", ["plain", "with space & 100% ?odd=#name"])
async def test_any_path_will_do(tmp_path, folder):
    (tmp_path / folder).mkdir()
    old_file(tmp_path / folder / "florin.db")
    async with open_engine_store("sqlite", tmp_path / folder) as store:
        await create_payment(store)
    assert {path.name for path in (tmp_path / folder).iterdir()} == {"florin.db", "florin.db.lock"}


async def test_a_file_of_a_newer_florin_is_left_alone(tmp_path):
    old_file(tmp_path / "florin.db", "v9999")
    with pytest.raises(StoreError, match="newer Florin"):
        await open_store(tmp_path / "florin.db")


async def test_foreign_database_is_refused_unchanged(tmp_path):
    with sqlite3.connect(tmp_path / "florin.db") as raw:
        raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    with pytest.raises(StoreError, match="not one of Florin's"):
        await open_store(tmp_path / "florin.db")


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "florin.db"
    schema.prepare(path)
    raw = SqliteConnection(path, writes=False)
    yield raw
    raw.close()


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - READS_ALL))
def test_no_operation_reads_a_whole_table(plans, name):
    sql = STATEMENTS[name].sqlite.sql
    rows = plans.command(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?")).fetchall()
    for *_, step in rows:
        if step == "SCAN limited":
            continue
        of_few = "json_each" in step or "INDEX ix_" in step or "INDEX uq_chain_tx_open" in step
        assert of_few or not step.startswith("SCAN"), step


@pytest.mark.parametrize(
    "name",
    [
        *("payments_DUE", "payments_NEXT_EXPIRY", "settlement_items_WAITING", "merchants_PAGE"),
        *("exports_payments_AFTER", "exports_ledger_LAST", "exports_ledger_RANGE"),
        *("exports_transactions_LAST", "exports_transactions_RANGE", "buyer_data_ALL"),
        *("exports_money_out_PAYOUTS", "exports_money_out_REFUNDS", "events_EVENTS"),
        *("replays_OF_PARTNER", "replays_OF_MERCHANT", "replays_REFUNDED"),
        *("replays_SETTLED", "books_DEBIT_PAGE", "books_CREDIT_PAGE", "journals_PAGE"),
    ],
)
def test_ordered_query_needs_no_sort(plans, name):
    sql = STATEMENTS[name].sqlite.sql
    rows = plans.command(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?")).fetchall()
    assert not [step for *_, step in rows if step == "USE TEMP B-TREE FOR ORDER BY"], rows


def test_every_statement_is_postgresql_too():
    dialect = postgresql()
    assert len(STATEMENTS) > 40
    for statement in STATEMENTS.values():
        text = str(statement.clause.compile(dialect=dialect))
        assert "json_each" not in text
        assert "?" not in text


def test_no_statement_changes_or_deletes_journal_or_event_rows():
    for name, statement in STATEMENTS.items():
        verb, _, rest = statement.sqlite.sql.partition(" ")
        table = rest.removeprefix("FROM ").split()[0]
        if verb in {"UPDATE", "DELETE"}:
            stored = {"ledger_journal", "ledger_transfer", "payment_event", "refund_event"}
            stored |= {"payment_settled"}
            assert table not in stored, name
