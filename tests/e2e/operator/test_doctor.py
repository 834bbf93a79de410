"""`florin doctor` of an installation that does not run: it looks, changes nothing, and says all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from florin_server.store.engine import schema

from tests.support import postgres
from tests.support.migrated import moved

OLD = "v0020"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"

sqlite_only = pytest.mark.skipif(postgres.used() != postgres.SQLITE, reason="moves a file")
needs_postgres = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
)
pytestmark = pytest.mark.long


def version(file: Path) -> str | None:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as raw:
        return schema.version(raw)


@sqlite_only
def test_doctor_and_ledger_check_report_a_due_migration_and_migrate_nothing(stopped, forks):
    file = stopped / "florin.db"
    moved(file, OLD, down=True)
    for command in (("doctor",), ("ledger", "check")):
        done = forks(*command, home=stopped)
        said = done.out + done.err
        assert done.status != 0
        assert f"has schema {OLD}, and this Florin reads {schema.HEAD}" in said
        assert "a migration is due, run `florin migrate`" in said
        assert version(file) == OLD
    # what needs no store is looked at all the same
    assert "✓ service is not running\n" in forks("doctor", home=stopped).out


@sqlite_only
def test_doctor_reports_a_missing_store_and_creates_none(stopped, forks):
    (stopped / "florin.db").unlink()
    done = forks("doctor", home=stopped)
    assert done.status == 1
    assert f"✗ store: there is no store at {stopped / 'florin.db'}" in done.out
    assert not (stopped / "florin.db").exists()


@needs_postgres
def test_doctor_reports_an_empty_database_and_creates_no_tables(tmp_path, stopped, forks):
    database = postgres.empty(tmp_path / "empty")
    try:
        done = forks("doctor", home=stopped, FLORIN_STORE=database.dsn)
        assert done.status == 1
        assert f"✗ store: {database} has no tables yet" in done.out
        assert postgres.at_once(lambda: postgres.rows(database.dsn, TABLES)) == []
    finally:
        postgres.at_once(lambda: postgres.forget(tmp_path / "empty"))


@needs_postgres
@pytest.mark.parametrize("command", [("doctor",), ("ledger", "check"), ("keys", "list")])
def test_commands_name_host_and_port_of_a_database_that_is_away(stopped, forks, command):
    # nothing listens there
    dsn = "postgresql://florin:s3cret@127.0.0.1:9/books"
    done = forks(*command, home=stopped, FLORIN_STORE=dsn)
    said = " ".join((done.out + done.err).split())
    assert done.status != 0
    assert "PostgreSQL at 127.0.0.1:9, database books" in said
    assert "Traceback" not in said
    assert "s3cret" not in said


def test_doctor_reports_missing_secrets_and_creates_none(stopped, forks):
    (stopped / "secrets.json").unlink()
    if postgres.used() != postgres.SQLITE:
        # the state folder is one by its files alone
        (stopped / "florin.db").touch(mode=0o600)
    done = forks("doctor", home=stopped)
    assert done.status == 1
    secrets = stopped / "secrets.json"
    assert f"✗ secrets: {secrets} is missing and keys depend on it" in done.out
    assert not secrets.exists()
