"""A cache of payments, for a store with a single writing process."""

from __future__ import annotations

from florin_server.domain.payments.payment import Payment

# a few KiB each at most, the limit of what merchants can write into a payment
PAYMENTS_MAX = 4_096


class PaymentCache:
    """Payments as last committed, at most `capacity`; the oldest entry is dropped first.

    A writer reports a change before its commit, and reports when its transaction is over, however
    it ended. In between, readers still see the old payment, and the cache keeps nothing of it. The
    cache therefore always equals the store.
    """

    def __init__(self, capacity: int = PAYMENTS_MAX) -> None:
        self._most = capacity
        self._known: dict[str, Payment] = {}
        self._changing: set[str] = set()
        # the number of changes
        self.changes = 0

    def __len__(self) -> int:
        return len(self._known)

    def find(self, payment_id: str) -> Payment | None:
        """Return the payment if it is cached and unchanged; None otherwise."""
        return self._known.get(payment_id)

    def put(self, payment: Payment, changes: int) -> None:
        """Cache a payment that was read, unless any change came after `changes`."""
        if changes != self.changes or payment.id in self._changing:
            return
        if payment.id not in self._known and len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[payment.id] = payment

    def invalidate(self, payment_id: str) -> None:
        """Record that an open transaction has changed a payment."""
        self.changes += 1
        self._changing.add(payment_id)
        self._known.pop(payment_id, None)

    def end_transaction(self) -> None:
        """Record that the transaction is committed or rolled back."""
        self._changing.clear()
