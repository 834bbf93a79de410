"""`florin migrate`: upgrade the schema of the store."""

from __future__ import annotations

from typing import Any

from florin_server.app import stores
from florin_server.app.home import SetupError, StateFolder
from florin_server.cli.console import (
    console,
    fail,
    print_json,
    show_progress,
)
from florin_server.cli.settings import get_settings
from florin_server.db.engine import migrating
from florin_server.db.engine.query import StoreError


def migrate_store(overrides: dict[str, Any], *, status: bool, sql: bool) -> None:
    """Upgrade the store to the present schema, or print its status or the statements."""
    settings = get_settings(overrides)
    try:
        store = stores.get_location(settings)
        if sql:
            statements = [
                f"{each_statement.strip()};" for each_statement in migrating.list_statements(store)
            ]
            if not print_json({"statements": statements}):
                for statement in statements:
                    console.print(statement)
            return
        if not status:
            StateFolder(settings.home).open()
            with show_progress("Upgrading the store"):
                migrating.upgrade(store)
        schema_status = migrating.get_status(store)
    except (SetupError, StoreError, OSError) as error:
        fail("Not migrated", error)
    print_json({"schema": schema_status.version, "wanted": schema_status.target_version})
    if schema_status.version == schema_status.target_version:
        console.print(f"The store has the present schema, {schema_status.version}.")
    elif schema_status.usable:
        console.print(
            f"The store has schema {schema_status.version} of a newer Florin, which this one can "
            f"use."
        )
    else:
        has = f"schema {schema_status.version}" if schema_status.version else "no schema yet"
        console.print(
            f"The store has {has}; this Florin needs {schema_status.target_version}: run `florin "
            f"migrate`."
        )
        raise SystemExit(1)
