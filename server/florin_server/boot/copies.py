"""Copies of a store: a file that is made while the service runs, and a store made of one."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from florin_server.boot.home import Refused
from florin_server.boot.stores import reading
from florin_server.clock import SystemClock
from florin_server.store.engine import copying, migrating, schema
from florin_server.store.engine.copying import Content
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.query import Row, run
from florin_server.store.engine.reading import Reading
from florin_server.store.engine.sqlite import Connection
from florin_server.store.engine.store import Store
from florin_server.store.engine.where import Database
from florin_server.store.ledger import ledger
from florin_server.store.operator import installation
from florin_server.store.payments import history

Copied = dict[str, Content]

_SAYS_SO = "installation"


def backup(store: Path | Database, to: Path) -> Copied:
    """Writes all that a store holds into a new file of SQLite, as it is at one moment.

    The service may run meanwhile. The file is opened again: its rows are compared with those that
    were read, and its books and histories checked. Refused if it is there already, or not whole.
    It says of itself when it was made, so that who begins to work on it pays nothing out twice.
    """
    at_us = SystemClock().now_us()
    if to.exists():
        raise Refused(f"{to} is there already")
    _check_schema(store)
    part = to.with_name(to.name + ".part")
    for left in to.parent.glob(f"{part.name}*"):
        left.unlink()
    schema.prepare(part)
    with (
        closing(reading(store)) as source,
        closing(Connection(part, writes=True, waits=True)) as target,
    ):
        target.command("BEGIN")

        def take(table: str, rows: list[Row]) -> None:
            run(copying.put(table, rows), target.query)

        copied = source.read(copying.contents(take))
        target.command("COMMIT")
        target.command("PRAGMA wal_checkpoint(TRUNCATE)")
        target.command("PRAGMA journal_mode=DELETE")
    _check(part, copied)
    copied |= _marked(part, at_us)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(to)
    return copied


def _marked(file: Path, at_us: int) -> Copied:
    """Says in a copy when it was made; the table that says so."""
    with closing(Connection(file, writes=True, waits=True)) as opened:
        run(installation.mark_copied(at_us), opened.query)
        found = run(copying.content(_SAYS_SO), opened.query)
        opened.command("PRAGMA journal_mode=DELETE")
    return {_SAYS_SO: found}


async def restore(source: Path | Database, to: Path | Database) -> Copied:
    """Copies a store that nobody writes to into one without rows, and compares all of them.

    Both are brought to the present schema first. Refused if the target has rows, or does not hold
    the same afterwards: then it is of no use.
    """
    _check_source(source, to)
    for store in (source, to):
        await asyncio.to_thread(_check_schema, store)
    origin = await open_store(source)
    try:
        target = await open_store(to)
        try:
            return await _copy(origin, target)
        finally:
            await target.close()
    finally:
        await origin.close()


def _check_source(source: Path | Database, to: Path | Database) -> None:
    if source == to:
        raise Refused("a store is not copied to itself")
    if isinstance(source, Path) and not source.exists():
        raise Refused(f"there is no store at {source}")


def _check_schema(store: Path | Database) -> None:
    """Refuse a store of a newer schema: this Florin may work on it, but would lose columns."""
    if (found := migrating.standing(store)).is_newer:
        raise Refused(
            f"{store} has schema {found.version}, which a newer Florin made: copy it with that one"
        )


async def _copy(origin: Store, target: Store) -> Copied:
    if not await target.read(copying.is_empty()):
        raise Refused("the store that is to be filled has rows already")
    for table in copying.tables():
        last: Row | None = None
        while rows := await origin.read(copying.page(table.name, last)):
            await target.write(copying.put(table.name, rows))
            last = rows[-1]
    await target.filled()
    found = await target.survey(copying.contents())
    _compare(await origin.survey(copying.contents()), found)
    return found


def _check(file: Path, copied: Copied) -> None:
    with closing(sqlite3.connect(file)) as raw:
        told = raw.execute("PRAGMA integrity_check").fetchall()
    if told != [("ok",)]:
        raise Refused(f"the copy is damaged: {told[0][0]}")
    with closing(Reading(file)) as opened:
        _compare(copied, opened.read(copying.contents()))
        wrong = opened.read(ledger.check()) + opened.read(history.check())
    if wrong:
        raise Refused(f"the copy is not whole: {wrong[0]}")


def _compare(wanted: Copied, found: Copied) -> None:
    if other := [name for name, content in wanted.items() if found.get(name) != content]:
        raise Refused(f"the copy differs in {', '.join(other)}: somebody wrote meanwhile?")
