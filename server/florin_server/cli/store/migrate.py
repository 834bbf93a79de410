"""florin migrate: the store's schema."""

from __future__ import annotations

from typing import Any

from florin_server.boot import stores
from florin_server.boot.home import Home, Refused
from florin_server.cli.console import console, fail, told, working
from florin_server.cli.settings import settings_of
from florin_server.store.engine import migrating
from florin_server.store.engine.query import StoreError


def run(given: dict[str, Any], *, status: bool, sql: bool) -> None:
    """Brings the store to the present schema, or tells what that would be."""
    settings = settings_of(given)
    try:
        store = stores.where(settings)
        if sql:
            statements = [f"{one.strip()};" for one in migrating.preview(store)]
            if not told({"statements": statements}):
                for one in statements:
                    console.print(one)
            return
        if not status:
            Home(settings.home).open()
            with working("Bringing the store to the schema of this Florin"):
                migrating.upgrade(store)
        found = migrating.standing(store)
    except (Refused, StoreError, OSError) as error:
        fail("Not migrated", error)
    told({"schema": found.version, "wanted": found.wanted})
    if found.version == found.wanted:
        console.print(f"The store has schema {found.version}, the present one.")
    elif found.usable:
        console.print(
            f"The store has schema {found.version}, which a newer Florin made and this one can use."
        )
    else:
        has = f"schema {found.version}" if found.version else "no schema yet"
        console.print(f"The store has {has}; this Florin wants {found.wanted}.")
        raise SystemExit(1)
