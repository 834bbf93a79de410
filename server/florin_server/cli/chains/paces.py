"""Read the measured block times of chains from the store, while Florin runs or not."""

from __future__ import annotations

from florin_server.app import stores
from florin_server.app.home import SetupError
from florin_server.db.engine.query import StoreError
from florin_server.features.monitoring.service.paces import StoredPace, list_paces
from florin_server.settings import Settings


def read_paces(settings: Settings) -> dict[str, StoredPace]:
    """Return the stored pace of each chain by CAIP-2 id; empty if there is no store yet."""
    try:
        store = stores.open_reader(stores.get_location(settings))
    except (StoreError, SetupError, OSError):
        return {}
    try:
        return store.read(list_paces())
    except StoreError:
        return {}
    finally:
        store.close()
