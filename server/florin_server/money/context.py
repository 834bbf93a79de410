"""Parts of the application for users of cached sums."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.ttl_cache import TtlCache
from florin_server.money.payments.store.listing import PaymentTotals
from florin_server.money.settlement.store.gas import GasUsage


class UsageContext(Protocol):
    """The gas that was used, and the credit that is left."""

    @property
    def usage_cache(self) -> TtlCache[GasUsage]:
        """Return the gas that was used in this hour, by chain."""

    @property
    def credit_cache(self) -> TtlCache[int]:
        """Return what merchants can still owe, in minor units by merchant and asset."""


class TotalsContext(Protocol):
    """Totals of lists."""

    @property
    def totals_cache(self) -> TtlCache[PaymentTotals]:
        """Return the totals of lists that were read lately."""
