"""The store on PostgreSQL: any number of processes, durable groups of writes, reads of snapshots.

Other processes write too, so an operation that decides on rows locks them, or lets its statement
decide; see CONTRIBUTING.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from florin_server.store.engine.notices import Notices
from florin_server.store.engine.postgres import schema
from florin_server.store.engine.postgres.connection import Connection, Kind
from florin_server.store.engine.postgres.errors import DriverError, is_lost, to_store_error
from florin_server.store.engine.postgres.notices import DatabaseNotices
from florin_server.store.engine.postgres.pool import Pool
from florin_server.store.engine.postgres.session import require_sessions
from florin_server.store.engine.postgres.writer import Writer
from florin_server.store.engine.query import Operation, StoreUnavailable, T
from florin_server.store.engine.store import MORE, Fault, PoolUse, Store
from florin_server.store.engine.where import Database

# each takes a connection as long as it runs
_SURVEYS = 2
_PROBE_S = 3.0


class PostgresStore(Store):
    """A database, which other processes may have open too."""

    def __init__(self, database: Database, engine: str, fault: Fault) -> None:
        def pool(kind: Kind, size: int) -> Pool:
            return Pool(partial(self._connect, kind), size)

        self._database = database
        self._astray = False
        self._readers = pool("read", database.readers)
        self._surveys = pool("survey", _SURVEYS)
        self._writers = pool("write", database.writers)
        self._probes = pool("read", 1)
        self._writer = Writer(self._writers, database.writers, fault)
        super().__init__(engine, self._writer)
        self._closed = False
        self._identity = ""
        self._notices = DatabaseNotices(database) if database.notify else None

    @classmethod
    async def at(cls, database: Database, fault: Fault) -> PostgresStore:
        """Opens a database, makes its tables if it has none, migrates them if they are older."""
        return cls(database, await schema.prepare(database), fault)

    @property
    def place(self) -> str:
        """The hosts, ports and name of the database."""
        return str(self._database)

    @property
    def exclusive(self) -> bool:
        """False: only leases tell who does what."""
        return False

    @property
    def identity(self) -> str:
        """System identifier and timeline of the server; another one after a standby took over."""
        return self._identity

    @property
    def notices(self) -> Notices | None:
        """NOTIFY and LISTEN, unless they are not to be used."""
        return self._notices

    @property
    def pools(self) -> Mapping[str, PoolUse]:
        """How connections to the server are used, by what they are for."""
        return {
            "read": self._readers.use,
            "survey": self._surveys.use,
            "write": self._writers.use,
        }

    async def read(self, op: Operation[T]) -> T:
        """Runs an operation that only reads."""
        return await self._read(self._readers, op)

    async def survey(self, op: Operation[T]) -> T:
        """Runs an operation that looks at many rows, on connections of its own."""
        return await self._read(self._surveys, op)

    async def time_us(self) -> int:
        """Return the time of the server that takes writes; StoreUnavailable if it is away."""
        connection = await self._writers.take()
        try:
            return await connection.time_us()
        except DriverError as error:
            raise to_store_error(error) from error
        finally:
            self._writers.give_back(connection)

    async def probe(self) -> None:
        """Ask the server for its time, on a connection of its own."""
        connection = await self._probes.take()
        try:
            async with asyncio.timeout(_PROBE_S):
                await connection.time_us()
        except DriverError as error:
            # a network that loses every packet would keep the next one waiting too
            connection.drop()
            why = str(error) or f"no answer within {_PROBE_S:.0f} s"
            raise StoreUnavailable(why) from error
        finally:
            self._probes.give_back(connection)

    async def filled(self) -> None:
        """Has the server count at once: it would plan for empty tables until it does by itself."""
        connection = await self._writers.take()
        try:
            await connection.analyze()
        except DriverError as error:
            raise to_store_error(error) from error
        finally:
            self._writers.give_back(connection)

    async def close(self) -> None:
        """Commits what is queued and takes leave of the server."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        if self._notices is not None:
            await self._notices.close()
        await asyncio.gather(
            *(one.close() for one in (self._writers, self._readers, self._surveys, self._probes))
        )

    async def _connect(self, kind: Kind) -> Connection:
        if self._astray:
            # a pooler shares connections since it was looked at
            await require_sessions(self._database)
            self._astray = False
        connection = await Connection.to(self._database, kind, self._note_astray)
        if kind == "write":
            self._identity = await connection.identity()
        return connection

    def _note_astray(self) -> None:
        self._astray = True

    async def _read(self, pool: Pool, op: Operation[T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            return await self._ask(pool, op)
        except DriverError as error:
            if not is_lost(error):
                raise to_store_error(error) from error
        # a connection that was kept may have broken since; whoever reads may ask twice
        try:
            return await self._ask(pool, op)
        except DriverError as error:
            raise to_store_error(error) from error

    async def _ask(self, pool: Pool, op: Operation[T]) -> T:
        connection = await pool.take()
        try:
            if self._asks_once(op):
                if (found := await _one_question(connection, op)) is not MORE:
                    result: T = found
                    return result
                self._asks_more(op)
            await connection.begin()
            try:
                return await connection.run(op)
            finally:
                await connection.give_up()
        finally:
            pool.give_back(connection)


async def _one_question(connection: Connection, op: Operation[Any]) -> Any:
    """What an operation comes to that asks once, which needs no transaction; else MORE."""
    steps = iter(op)
    try:
        query = next(steps)
        steps.send(await connection.query(query))
    except StopIteration as stop:
        return stop.value
    return MORE
