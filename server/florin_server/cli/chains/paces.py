"""Reads from the store how fast blocks of chains come, whether Florin runs or not."""

from __future__ import annotations

from florin_server.boot import stores
from florin_server.boot.home import Refused
from florin_server.config import Settings
from florin_server.flows.operator.paces import KnownPace, list_paces
from florin_server.store.engine.query import StoreError


def read_paces(settings: Settings) -> dict[str, KnownPace]:
    """Return what is known of each chain by CAIP-2; nothing if there is no store yet."""
    try:
        store = stores.reading(stores.where(settings))
    except (StoreError, Refused, OSError):
        return {}
    try:
        return store.read(list_paces())
    except StoreError:
        return {}
    finally:
        store.close()
