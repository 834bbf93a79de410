"""A database that others may have open: looked at, and never changed."""

from __future__ import annotations

import asyncio

from florin_server.store.engine.postgres import schema
from florin_server.store.engine.postgres.connection import Connection
from florin_server.store.engine.postgres.errors import DriverError, to_store_error
from florin_server.store.engine.query import Operation, T
from florin_server.store.engine.where import Database


class DatabaseReading:
    """Reads a database where no event loop runs; each operation has a snapshot of its own.

    StoreError if its schema is none of this version's.
    """

    def __init__(self, database: Database) -> None:
        self._runner = asyncio.Runner()
        try:
            self._runner.run(schema.require(database))
            self._connection = self._runner.run(Connection.to(database, "survey"))
            self.engine = f"PostgreSQL {self._connection.server_version}"
        except BaseException as error:
            self._runner.close()
            if isinstance(error, DriverError):
                raise to_store_error(error) from error
            raise

    def read(self, op: Operation[T]) -> T:
        """Runs an operation on what is committed."""
        try:
            return self._runner.run(self._read(op))
        except DriverError as error:
            raise to_store_error(error) from error

    def time_us(self) -> int:
        """Return the server's time, in microseconds since the Unix epoch."""
        try:
            return self._runner.run(self._connection.time_us())
        except DriverError as error:
            raise to_store_error(error) from error

    def close(self) -> None:
        """Takes leave of the server."""
        self._runner.run(self._connection.close())
        self._runner.close()

    async def _read(self, op: Operation[T]) -> T:
        await self._connection.begin()
        try:
            return await self._connection.run(op)
        finally:
            await self._connection.give_up()
