"""Parts of the application for senders of notifications and metrics."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.feed import ChangeFeed, PaymentFeed
from florin_server.base.hints import ProcessBus
from florin_server.base.meters import Meters
from florin_server.base.notifications import AccountInvalidation, WebhookState
from florin_server.base.tracing import Tracer
from florin_server.domain.payments.payment import Payment


class EventContext(Protocol):
    """Notifications of changes."""

    @property
    def payment_feed(self) -> PaymentFeed:
        """Return the feed of changed payments."""

    @property
    def payout_feed(self) -> ChangeFeed:
        """Return the feed of changed payouts."""

    @property
    def bus(self) -> ProcessBus:
        """Return the notifications to other processes."""

    @property
    def webhooks(self) -> WebhookState:
        """Return the state of webhooks."""

    async def publish_change(self, payment: Payment) -> Payment:
        """Notify watchers of a committed change; return the payment."""

    def notify_payouts(self, *ids: str) -> None:
        """Notify the streams of these payouts that they may have changed."""

    def wake_payouts(self) -> None:
        """Notify the payout worker, here or in another process, of new work."""

    def wake_local_payouts(self) -> None:
        """Let this process check what to pay out."""

    @property
    def account_invalidation(self) -> AccountInvalidation:
        """Return the notifications of changed accounts."""


class MeterContext(Protocol):
    """Metrics and traces."""

    @property
    def meters(self) -> Meters:
        """Return the metrics."""

    @property
    def traces(self) -> Tracer:
        """Return the tracer."""
