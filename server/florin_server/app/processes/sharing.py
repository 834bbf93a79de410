"""Requirements of several processes of one service."""

from __future__ import annotations

from pathlib import Path

from florin_server.app import stores
from florin_server.app.home import SetupError
from florin_server.app.servers.addresses import check_bind
from florin_server.settings import Settings


def get_shared_store(settings: Settings) -> str:
    """Return their shared database, without its password; SetupError for what they cannot share."""
    store = stores.get_location(settings)
    if isinstance(store, Path):
        raise SetupError(
            "several processes need PostgreSQL, because SQLite supports one process: set "
            "FLORIN_STORE to a database, or leave out --workers"
        )
    if settings.has_embedded or settings.has_embedded_solana:
        raise SetupError(
            "several processes cannot share the embedded chains: set FLORIN_DEMO=false, or leave "
            "out --workers"
        )
    check_bind(settings)
    return str(store)


def require_same_shared(settings: Settings, store: str) -> None:
    """Refuse new settings with which a process would work apart from the others."""
    if get_shared_store(settings) != store:
        raise SetupError(
            "a reload cannot change the database, because the processes would use different "
            "ones: stop Florin and start it again"
        )
