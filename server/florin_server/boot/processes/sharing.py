"""What several processes of one service have to have in common."""

from __future__ import annotations

from pathlib import Path

from florin_server.boot import stores
from florin_server.boot.home import Refused
from florin_server.boot.servers.addresses import check_bind
from florin_server.config import Settings


def shared_store(settings: Settings) -> str:
    """Which database they share, without its password; Refused for what they cannot share."""
    store = stores.where(settings)
    if isinstance(store, Path):
        raise Refused(
            "several processes need PostgreSQL, and SQLite is one process's: name a database in "
            "FLORIN_STORE, or leave --workers away"
        )
    if settings.has_embedded or settings.has_embedded_solana:
        raise Refused(
            "several processes cannot share the embedded chains, which are one process's: set "
            "FLORIN_DEMO=false, or leave --workers away"
        )
    check_bind(settings)
    return str(store)


def check_same(settings: Settings, store: str) -> None:
    """Refused if settings that were read anew would have a process work apart from the others."""
    if shared_store(settings) != store:
        raise Refused(
            "another database cannot be taken by a reload, as some processes would have the one "
            "and some the other: stop Florin, and start it again"
        )
