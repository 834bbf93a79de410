"""Opens the store, with the queries by which it reads payments."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from florin_server.db.engine import opening
from florin_server.db.engine.entity_reader import EntityQueries
from florin_server.db.engine.store import FaultHook, PaymentQueries, Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.money.payments.store import payments

PAYMENT_QUERIES: Final[PaymentQueries] = EntityQueries("payment", payments.find, payments.find_many)


async def open_store(
    location: Path | DatabaseConfig, *, fault_hook: FaultHook | None = None
) -> Store:
    """Open a store; create its tables if it is new, and migrate it if it is older.

    Raise StoreLocked while another server has the file open. `fault_hook` is for tests.
    """
    return await opening.open_store(location, PAYMENT_QUERIES, fault_hook=fault_hook)
