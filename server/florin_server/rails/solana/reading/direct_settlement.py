"""Payments that the payer's wallet sends: by a transaction that it fetched by a link."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.solana.paying.terms import DIRECT_METHOD
from florin_server.rails.types import SettlementEvent


class SolanaDirectSettlement:
    """Implement the DirectSettlementReader protocol.

    No contract reports settlements: they are found by the address that their transactions name.
    """

    def is_direct(self, option: PaymentOption) -> bool:
        """Return True if the payer's wallet sends the transaction."""
        return option.method == DIRECT_METHOD

    def is_resembled(self, option: PaymentOption, event: SettlementEvent) -> bool:  # noqa: ARG002
        """Return False: a transaction pays exactly as offered, or is no settlement."""
        return False

    async def list_settlement_events(
        self,
        references: Sequence[str],  # noqa: ARG002
        from_block: int,  # noqa: ARG002
    ) -> list[SettlementEvent]:
        """Return none: nodes do not find transactions by their references."""
        return []

    async def list_settlement_events_between(
        self,
        first: int,  # noqa: ARG002
        last: int,  # noqa: ARG002
    ) -> list[SettlementEvent]:
        """Return none: blocks are not read."""
        return []

    async def is_paid(self, option: PaymentOption) -> bool:
        """Return True: a payment is bound to such an option only by a final transaction."""
        return self.is_direct(option)
