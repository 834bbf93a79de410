"""The parts of the application for users of statements."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.ttl_cache import TtlCache
from florin_server.db.context import StorageContext
from florin_server.features.reports.service.statement import StatementData


class StatementContext(StorageContext, Protocol):
    """The store, and statements that were read lately."""

    @property
    def statement_cache(self) -> TtlCache[StatementData]:
        """Return the data of statements, by scope and period."""
