"""A reader of a database that others may have open; it never changes it."""

from __future__ import annotations

import asyncio

from florin_server.db.engine.postgres import schema
from florin_server.db.engine.postgres.connection import PostgresConnection
from florin_server.db.engine.postgres.errors import DriverError, to_store_error
from florin_server.db.engine.query import Operation, T
from florin_server.db.engine.where import DatabaseConfig


class PostgresStoreReader:
    """Read a database without an event loop; each operation has its own snapshot.

    Raise StoreError if this version cannot use its schema.
    """

    def __init__(self, database: DatabaseConfig) -> None:
        self._runner = asyncio.Runner()
        try:
            self._runner.run(schema.require_current(database))
            self._connection = self._runner.run(PostgresConnection.connect(database, "survey"))
            self.engine = f"PostgreSQL {self._connection.server_version}"
        except BaseException as error:
            self._runner.close()
            if isinstance(error, DriverError):
                raise to_store_error(error) from error
            raise

    def read(self, op: Operation[T]) -> T:
        """Run an operation on committed data."""
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
        """Close the connection."""
        self._runner.run(self._connection.close())
        self._runner.close()

    async def _read(self, op: Operation[T]) -> T:
        await self._connection.begin()
        try:
            return await self._connection.run(op)
        finally:
            await self._connection.rollback()
