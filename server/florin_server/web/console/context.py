"""The parts of the application that consoles use."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.features.icons.context import IconContext
from florin_server.features.reports.context import StatementContext
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext
from florin_server.web.console.config import RecordContext


class ConsoleContext(
    ArchiveContext,
    ChainContext,
    EventContext,
    IconContext,
    LimitContext,
    RecordContext,
    SettingsContext,
    StatementContext,
    WorkerContext,
    Protocol,
):
    """The parts that pages read directly; they get everything else by calls."""
