"""Settlements by third parties at the settlement contract, which accepts calls from anyone."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, EvmOptionTerms, to_address
from florin_server.rails.evm.reading.observer import EvmObserver
from florin_server.rails.types import SettlementEvent


class EvmDirectSettlement:
    """Implement the DirectSettlementReader protocol."""

    def __init__(self, observer: EvmObserver) -> None:
        self._observer = observer

    def is_direct(self, option: PaymentOption) -> bool:
        """Return True if the buyer's wallet calls the settlement contract itself."""
        return option.method == DIRECT_METHOD

    def is_resembled(self, option: PaymentOption, event: SettlementEvent) -> bool:
        """Return True if it moved an option's money to its receivers by another method or end."""
        return EvmOptionTerms.from_option(option).is_resembled_by(to_address(option.payer), event)

    async def list_settlement_events(
        self, references: Sequence[str], from_block: int
    ) -> list[SettlementEvent]:
        """Return settlement events of the references from a block on, by any submitter."""
        return await self._observer.read_any(
            lambda evidence: evidence.list_settlement_events(references, from_block)
        )

    async def list_settlement_events_between(self, first: int, last: int) -> list[SettlementEvent]:
        """Return all settlement events of a range of blocks, by any submitter."""
        return await self._observer.read_any(
            lambda evidence: evidence.list_settlement_events_between(first, last)
        )

    async def is_paid(self, option: PaymentOption) -> bool:
        """Return True if the settlement contract records, at final depth, that the payer paid."""
        return await self._observer.read_any(lambda evidence: evidence.is_paid(option))
