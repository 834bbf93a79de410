"""A PostgreSQL that refuses what the database contract (docs/reference/database.md) lacks."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from florin_server.db.engine.postgres import session

from tools.reference.database import OPTIONAL_FUNCTIONS, get_allowed_features
from tools.reference.sql_features import SqlFeatures, find_features

# names of databases whose connections are restricted
_restricted: set[str] = set()


def restrict(database: str) -> None:
    """Restrict the store's connections to a database from now on; those of tests are not."""
    _restricted.add(database)
    session.asyncpg = _Driver()  # type: ignore[assignment]


@cache
def _get_allowed() -> SqlFeatures:
    # tests let transactions overlap by a statement that takes a while
    waits = find_features(["SELECT pg_sleep($1::FLOAT)"])
    allowed = get_allowed_features()
    return SqlFeatures(
        allowed.keywords | waits.keywords,
        allowed.functions | waits.functions,
        allowed.types | waits.types,
    )


@cache
def find_refusal(text: str) -> Exception | None:
    """Return the error of a statement, as a database without what it uses would answer it."""
    if optional := find_features([text]).functions.intersection(OPTIONAL_FUNCTIONS):
        return asyncpg.UndefinedFunctionError(f"function {min(optional)}() does not exist")
    if missing := _get_allowed().list_missing(text):
        return asyncpg.FeatureNotSupportedError(f"{', '.join(missing)} in {text}")
    return None


def _check(text: str) -> None:
    if error := find_refusal(text):
        raise error


class _RestrictedConnection(asyncpg.Connection):
    """A connection that sends only what the contract has."""

    async def execute(self, query: str, *values: Any, **options: Any) -> Any:
        _check(query)
        return await super().execute(query, *values, **options)

    async def fetch(self, query: str, *values: Any, **options: Any) -> Any:
        _check(query)
        return await super().fetch(query, *values, **options)

    async def fetchrow(self, query: str, *values: Any, **options: Any) -> Any:
        _check(query)
        return await super().fetchrow(query, *values, **options)

    async def fetchval(self, query: str, *values: Any, **options: Any) -> Any:
        _check(query)
        return await super().fetchval(query, *values, **options)

    async def prepare(self, query: str, **options: Any) -> Any:
        _check(query)
        return await super().prepare(query, **options)

    async def add_listener(self, channel: str, callback: Any) -> None:
        raise asyncpg.FeatureNotSupportedError("LISTEN")


class _Driver:
    """The driver for the store; all else is the driver's own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncpg, name)

    async def connect(self, dsn: str, **options: Any) -> Any:
        if urlsplit(dsn).path[1:] in _restricted:
            options["connection_class"] = _RestrictedConnection
        return await asyncpg.connect(dsn, **options)
