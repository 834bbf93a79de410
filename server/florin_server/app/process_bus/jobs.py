"""The jobs with which several processes act as one: send, receive and check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from florin_server.app.process_bus.cache_refresher import CacheRefresher
from florin_server.app.process_bus.listener import BusListener
from florin_server.app.process_bus.sender import send_messages
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.operations.context import QuarantineContext, WorkerContext


class _Context(
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
    cache_refresher = CacheRefresher(app)
    channel = app.store.notification_channel
    if channel is None or not app.notifier.bus.is_enabled:
        return cache_refresher.get_jobs()
    listener = BusListener(app, channel, cache_refresher)
    sending: dict[str, Callable[[], Awaitable[None]]] = {
        "send_hints": partial(send_messages, app, channel)
    }
    return {**cache_refresher.get_jobs(), **sending, **listener.get_jobs()}
