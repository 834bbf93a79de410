"""Payments that were read before, for a store whose process is the only one that writes them."""

from __future__ import annotations

from florin_server.domain.payments.payment import Payment

# a few KiB each at most, as long as what merchants may write into one
PAYMENTS_MAX = 4_096


class PaymentCache:
    """Payments as they were committed last, `most` of them; who was kept first goes first.

    Whoever changes one says so before its commit, and says when its transaction is over, however
    that ended. In between readers still see the payment as it was, and nothing is kept of it. So
    this never knows anything else than the store.
    """

    def __init__(self, most: int = PAYMENTS_MAX) -> None:
        self._most = most
        self._known: dict[str, Payment] = {}
        self._changing: set[str] = set()
        # how often one was changed
        self.changes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, payment_id: str) -> Payment | None:
        """The payment, if it was read before and is still the same."""
        return self._known.get(payment_id)

    def keep(self, payment: Payment, changes: int) -> None:
        """Keeps what was read, unless it changed since `changes` was that many."""
        if changes != self.changes or payment.id in self._changing:
            return
        if payment.id not in self._known and len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[payment.id] = payment

    def changed(self, payment_id: str) -> None:
        """A transaction that is open has changed a payment."""
        self.changes += 1
        self._changing.add(payment_id)
        self._known.pop(payment_id, None)

    def settled(self) -> None:
        """The transaction is committed, or given up."""
        self._changing.clear()
