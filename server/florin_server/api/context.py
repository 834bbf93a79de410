"""The parts of the application that the services of the API use."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.context import KeyUseContext
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.features.icons.context import IconContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import TotalsContext, UsageContext
from florin_server.operations.context import OperationsContext, QuarantineContext, WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class ApiContext(
    ArchiveContext,
    StorageContext,
    SettingsContext,
    ChainContext,
    EventContext,
    MeterContext,
    LimitContext,
    ScreeningContext,
    QuarantineContext,
    OperationsContext,
    WorkerContext,
    IconContext,
    UsageContext,
    TotalsContext,
    KeyUseContext,
    Protocol,
):
    """All parts that calls use: a gRPC service consists of the calls of many nouns."""
