"""Notifies workers, streams and caches of changes, here and in other processes.

A notification says what changed and never the new value; only the watchers of payments get the
value, as the process that changes one has it. Notifications to other processes can get lost, so
every subscriber also has a sweep of its own: the feeds compare versions with the store, caches its
counters of changes, and workers look for work.
"""

from __future__ import annotations

from collections.abc import Callable

from florin_server.base.feed import ChangeFeed, PaymentFeed
from florin_server.base.process_bus import ProcessBus
from florin_server.base.subscriptions import Subscriptions
from florin_server.base.topics import Topic
from florin_server.domain.payments.payment import Payment


class Notifier(Subscriptions):
    """The notifications of one process.

    `payments` has the watchers of payments, `payouts` the followers of payouts, and `bus` sends to
    other processes. `record_change` is called with each payment that this process changed.
    """

    def __init__(
        self, payments: PaymentFeed, bus: ProcessBus, record_change: Callable[[Payment], None]
    ) -> None:
        super().__init__()
        self.payments = payments
        self.payouts = ChangeFeed(self, Topic.PAYOUT)
        self.bus = bus
        self._record_change = record_change

    def publish(self, topic: Topic, key: str = "") -> None:
        """Notify the subscribers of all processes; call it after the commit."""
        self.notify(topic, key)
        self.bus.publish(topic, key)

    def publish_payment(self, payment: Payment) -> Payment:
        """Notify all processes of a payment's new version after its commit; return the payment."""
        self._record_change(payment)
        self.payments.publish(payment)
        self.notify(Topic.PAYMENT, payment.id)
        self.bus.publish_payment(payment.id, payment.version)
        return payment

    def close(self) -> None:
        """End every stream by FeedClosed."""
        self.payments.close()
        self.payouts.close()
