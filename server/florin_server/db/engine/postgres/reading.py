"""A reader of a database that others may have open; it never changes it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Self

from florin_server.db.engine.postgres import schema
from florin_server.db.engine.postgres.connection import PostgresConnection
from florin_server.db.engine.postgres.errors import DriverError, to_store_error
from florin_server.db.engine.postgres.standby import find_lag_problem
from florin_server.db.engine.query import Operation, StoreError, T
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

    @classmethod
    def open_standby(cls, database: DatabaseConfig) -> Self:
        """Read from a database's standby; StoreError if it is too far behind."""
        primary = cls(database)
        try:
            newest = primary._runner.run(primary._connection.find_newest_heartbeat())
        finally:
            primary.close()
        standby = cls(replace(database, dsn=database.standby_dsn))
        lag_max_us = int(database.standby_lag_max_s * 1_000_000)
        try:
            problem = standby._runner.run(find_lag_problem(newest, standby._connection, lag_max_us))
            if problem:
                raise StoreError(problem)
        except BaseException as error:
            standby.close()
            if isinstance(error, DriverError):
                raise to_store_error(error) from error
            raise
        return standby

    def read(self, op: Operation[T]) -> T:
        """Run an operation on committed data."""
        try:
            return self._runner.run(self._read(op))
        except DriverError as error:
            raise to_store_error(error) from error

    def time_us(self) -> int:
        """Return the time of the data, in microseconds since the Unix epoch.

        That is the server's time, or up to when a standby has replayed its primary server.
        """
        try:
            replayed_us = self._runner.run(self._connection.find_replayed_us())
            if replayed_us is not None:
                return replayed_us
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
