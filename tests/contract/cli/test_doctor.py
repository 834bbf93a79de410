"""`florin doctor` of a stopped installation: it checks, changes nothing, and reports all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from florin_server.db.engine import schema

from tests.support import postgres
from tests.support.store_migrations import migrate_file

OLD = "v0020"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"

sqlite_only = pytest.mark.skipif(postgres.get_engine() != postgres.SQLITE, reason="moves a file")
needs_postgres = pytest.mark.skipif(
    postgres.POSTGRES not in postgres.list_engines(), reason="PostgreSQL is not selected"
)
pytestmark = pytest.mark.long


def version(file: Path) -> str | None:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as raw:
        return schema.read_version(raw)


@sqlite_only
def test_doctor_and_ledger_check_report_a_due_migration_and_migrate_nothing(stopped, forks):
    file = stopped / "florin.db"
    migrate_file(file, OLD, down=True)
    for command in (("doctor",), ("ledger", "check")):
        done = forks(*command, home=stopped)
        text = done.out + done.err
        assert done.status != 0
        assert f"has schema {OLD}, but this Florin reads {schema.HEAD}" in text
        assert "back it up, then run `florin migrate`" in text
        assert version(file) == OLD
    # checks that need no store run all the same
    assert "✓ service is not running\n" in forks("doctor", home=stopped).out


@sqlite_only
def test_doctor_reports_a_missing_store_and_creates_none(stopped, forks):
    (stopped / "florin.db").unlink()
    done = forks("doctor", home=stopped)
    assert done.status == 1
    assert f"✗ store: no store exists at {stopped / 'florin.db'}" in done.out
    assert not (stopped / "florin.db").exists()


@needs_postgres
def test_doctor_reports_an_empty_database_and_creates_no_tables(tmp_path, stopped, forks):
    database = postgres.create_empty_database(tmp_path / "empty")
    try:
        done = forks("doctor", home=stopped, FLORIN_STORE=database.dsn)
        assert done.status == 1
        assert f"✗ store: {database} has no tables yet" in done.out
        assert postgres.run_coroutine(lambda: postgres.list_rows(database.dsn, TABLES)) == []
    finally:
        postgres.run_coroutine(lambda: postgres.drop_database(tmp_path / "empty"))


@needs_postgres
@pytest.mark.parametrize("command", [("doctor",), ("ledger", "check"), ("keys", "list")])
def test_commands_name_host_and_port_of_a_database_that_is_away(stopped, forks, command):
    # nothing listens there
    dsn = "postgresql://florin:s3cret@127.0.0.1:9/books"
    done = forks(*command, home=stopped, FLORIN_STORE=dsn)
    text = " ".join((done.out + done.err).split())
    assert done.status != 0
    assert "PostgreSQL at 127.0.0.1:9, database books" in text
    assert "Traceback" not in text
    assert "s3cret" not in text


def test_doctor_reports_missing_secrets_and_creates_none(stopped, forks):
    (stopped / "secrets.json").unlink()
    if postgres.get_engine() != postgres.SQLITE:
        # the state folder is recognized by its files alone
        (stopped / "florin.db").touch(mode=0o600)
    done = forks("doctor", home=stopped)
    assert done.status == 1
    secrets = stopped / "secrets.json"
    assert f"✗ secrets: {secrets} is missing, and keys depend on it" in done.out
    assert not secrets.exists()
