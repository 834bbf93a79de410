"""What others settle at the settlement contract, which takes calls from anybody."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.payments.payment import Option
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, Terms, bare
from florin_server.rails.evm.reading.observer import EvmObserver
from florin_server.rails.types import Paid


class EvmDirectSettlement:
    """Implements the DirectSettlement protocol."""

    def __init__(self, observer: EvmObserver) -> None:
        self._observer = observer

    def is_direct(self, option: Option) -> bool:
        """True if the buyer's wallet calls the settlement contract by itself."""
        return option.method == DIRECT_METHOD

    def resembles(self, option: Option, paid: Paid) -> bool:
        """True if it moved an option's money to its receivers, but in another way or time."""
        return Terms.of(option).resembled_by(bare(option.payer), paid)

    async def paid(self, references: Sequence[str], from_block: int) -> list[Paid]:
        """Settlement events of the references from a block on, whoever submitted them."""
        return await self._observer.read(lambda evidence: evidence.paid(references, from_block))

    async def paid_between(self, first: int, last: int) -> list[Paid]:
        """All settlement events of a range of blocks, whoever submitted them."""
        return await self._observer.read(lambda evidence: evidence.paid_between(first, last))

    async def is_paid(self, option: Option) -> bool:
        """True if the settlement contract says at final depth that the payer itself paid."""
        return await self._observer.read(lambda evidence: evidence.is_paid(option))
