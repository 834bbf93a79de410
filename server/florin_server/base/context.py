"""Parts of the application for senders of notifications and metrics."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.meters import Meters
from florin_server.base.notifier import Notifier
from florin_server.base.tracing import Tracer


class EventContext(Protocol):
    """Notifications of changes."""

    @property
    def notifier(self) -> Notifier:
        """Return the notifications of this process."""


class MeterContext(Protocol):
    """Metrics and traces."""

    @property
    def meters(self) -> Meters:
        """Return the metrics."""

    @property
    def traces(self) -> Tracer:
        """Return the tracer."""
