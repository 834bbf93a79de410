"""Sends the notifications of this process to the others on the store."""

from __future__ import annotations

import logging
from typing import Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.db.context import StorageContext
from florin_server.db.engine.notices import NotificationChannel
from florin_server.db.engine.query import StoreError


class _Context(EventContext, MeterContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

_BACK_OFF_S, _BACK_OFF_MAX_S, _DOUBLINGS_MAX = 0.1, 5.0, 6


async def send_messages(app: _Context, channel: NotificationChannel) -> None:
    """Run until canceled: one message at a time, with all changes since the last one."""
    failures = 0
    while True:
        text, count = await app.notifier.bus.next_message()
        try:
            await channel.publish(text)
        except StoreError as error:
            app.meters.record_hints("dropped", count)
            if not failures:
                _log.warning(
                    "notifications to other processes failed; they find the changes by sweeps: %s",
                    error,
                )
            await app.clock.sleep(get_backoff_s(failures))
            failures += 1
        else:
            app.meters.record_hints("sent", count)
            failures = 0


def get_backoff_s(failures: int) -> float:
    """Return the wait before the next attempt."""
    return min(_BACK_OFF_MAX_S, _BACK_OFF_S * 2.0 ** min(failures, _DOUBLINGS_MAX))
