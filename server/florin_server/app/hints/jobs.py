"""The jobs with which several processes act as one: send, receive and check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from florin_server.app.hints.hear import BusListener
from florin_server.app.hints.remembered import CacheRefresher
from florin_server.app.hints.tell import publish
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.operations.context import QuarantineContext, WorkerContext
from florin_server.rails.context import ChainContext


class _Context(
    ChainContext,
    EventContext,
    MeterContext,
    QuarantineContext,
    ScreeningContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


def get_jobs(app: _Context) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the jobs by name; none where no other process can have the store."""
    if app.store.is_exclusive:
        return {}
    remembered = CacheRefresher(app)
    notices = app.store.notification_channel
    if notices is None or not app.bus.is_enabled:
        return remembered.get_jobs()
    hearing = BusListener(app, notices, remembered)
    report: dict[str, Callable[[], Awaitable[None]]] = {
        "send_hints": partial(publish, app, notices)
    }
    return {**remembered.get_jobs(), **report, **hearing.get_jobs()}
