"""Copies of a store: a file that is made while the service runs, and a store made of one."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from florin_server.app.home import SetupError
from florin_server.app.stores import open_reader
from florin_server.base.clock import SystemClock
from florin_server.db import installation
from florin_server.db.engine import copying, migrating, schema
from florin_server.db.engine.copying import Row, TableDigest
from florin_server.db.engine.query import run
from florin_server.db.engine.reading import SqliteStoreReader
from florin_server.db.engine.sqlite import SqliteConnection
from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.money.ledger.store import ledger
from florin_server.money.open_store import open_store
from florin_server.money.payments.store import history
from florin_server.operations.store import leases

TableDigests = dict[str, TableDigest]

_COPY_TIME_TABLE = "installation"


def backup(store: Path | DatabaseConfig, destination: Path) -> TableDigests:
    """Write all that a store contains at one moment into a new file of SQLite.

    The service can run meanwhile. The file is opened again: its rows are compared with those that
    were read, and its ledger and histories checked. SetupError if the file exists already, or is
    incomplete. The copy contains its time, so that a service that starts on it pays nothing out
    twice.
    """
    at_us = SystemClock().now_us()
    if destination.exists():
        raise SetupError(f"{destination} exists already")
    _check_schema(store)
    part = destination.with_name(destination.name + ".part")
    for left in destination.parent.glob(f"{part.name}*"):
        left.unlink()
    schema.prepare(part)
    with (
        closing(open_reader(store)) as source,
        closing(SqliteConnection(part, writes=True, waits=True)) as target,
    ):
        target.command("BEGIN")

        def take(table: str, rows: list[Row]) -> None:
            run(copying.insert_rows(table, rows), target.query)

        copied = source.read(copying.digest_tables(take))
        target.command("COMMIT")
        target.command("PRAGMA wal_checkpoint(TRUNCATE)")
        target.command("PRAGMA journal_mode=DELETE")
    _verify_file(part, copied)
    copied |= _mark_copy_time(part, at_us)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(destination)
    return copied


def _mark_copy_time(file: Path, at_us: int) -> TableDigests:
    """Store the time of the copy, and the table for it, in the copy."""
    with closing(SqliteConnection(file, writes=True, waits=True)) as opened:
        run(installation.mark_copied(at_us), opened.query)
        table_digest = run(copying.digest_table(_COPY_TIME_TABLE), opened.query)
        opened.command("PRAGMA journal_mode=DELETE")
    return {_COPY_TIME_TABLE: table_digest}


async def restore(
    source: Path | DatabaseConfig, destination: Path | DatabaseConfig
) -> TableDigests:
    """Copy a store without writers into a store without rows, and compare all rows.

    Both are migrated to the present schema first, and the target's leases are free at the end.
    SetupError if the target has rows, or differs afterwards: then it is not usable.
    """
    _check_source(source, destination)
    for store in (source, destination):
        await asyncio.to_thread(_check_schema, store)
    origin = await open_store(source)
    try:
        target = await open_store(destination)
        try:
            return await _copy_rows(origin, target)
        finally:
            await target.close()
    finally:
        await origin.close()


def _check_source(source: Path | DatabaseConfig, destination: Path | DatabaseConfig) -> None:
    if source == destination:
        raise SetupError("the source and the target are the same store")
    if isinstance(source, Path) and not source.exists():
        raise SetupError(f"no store exists at {source}")


def _check_schema(store: Path | DatabaseConfig) -> None:
    """Refuse a store of a newer schema: this Florin may work on it, but would lose columns."""
    if (status := migrating.get_status(store)).is_newer:
        raise SetupError(
            f"{store} has schema {status.version}, made by a newer release of Florin: copy it with "
            "that release"
        )


async def _copy_rows(origin: Store, target: Store) -> TableDigests:
    if not await target.read(copying.is_empty()):
        raise SetupError("the target store already contains rows")
    for table in copying.list_tables():
        last: Row | None = None
        while rows := await origin.read(copying.list_page(table.name, last)):
            await target.write(copying.insert_rows(table.name, rows))
            last = rows[-1]
    await target.analyze()
    table_digests = await target.scan(copying.digest_tables())
    _require_equal(await origin.scan(copying.digest_tables()), table_digests)
    # the processes that took them use another store
    owners = {lease.holder for lease in await target.read(leases.list_leases())}
    await target.write(leases.release_all(owners))
    return table_digests


def _verify_file(file: Path, digests: TableDigests) -> None:
    with closing(sqlite3.connect(file)) as raw:
        report = raw.execute("PRAGMA integrity_check").fetchall()
    if report != [("ok",)]:
        raise SetupError(f"the copy is damaged: {report[0][0]}")
    with closing(SqliteStoreReader(file)) as opened:
        _require_equal(digests, opened.read(copying.digest_tables()))
        wrong = opened.read(ledger.check()) + opened.read(history.check())
    if wrong:
        raise SetupError(f"the copy is incomplete: {wrong[0]}")


def _require_equal(expected: TableDigests, actual: TableDigests) -> None:
    if other := [name for name, content in expected.items() if actual.get(name) != content]:
        raise SetupError(
            f"the copy differs in {', '.join(other)}: did another process write during the copy?"
        )
