"""The operator's credit for what merchants owe."""

from __future__ import annotations

from typing import Protocol

from florin_server.db.context import StorageContext
from florin_server.money.context import UsageContext
from florin_server.money.payouts.store import balances
from florin_server.money.payouts.store.balances import CreditLimits
from florin_server.settings.context import SettingsContext


class _Context(SettingsContext, StorageContext, UsageContext, Protocol):
    """The parts of the application that this module uses."""


def find_credit(app: SettingsContext, asset: str, *, live: bool) -> CreditLimits | None:
    """Return the credit in an asset (CAIP-19), in minor units; None on test chains: unlimited."""
    if not live:
        return None
    credit = app.settings.refund_credit.get(asset)
    if credit is None:
        return CreditLimits(merchant=0, partner=0, total=0)
    return CreditLimits(credit.merchant_max, credit.partner, credit.total_max)


async def has_credit_for(
    app: _Context, merchant_id: str, asset: str, amount: int, *, live: bool
) -> bool:
    """Return whether a merchant can owe an amount more, by its books of at most ten seconds ago."""
    credit = find_credit(app, asset, live=live)
    if credit is None:
        return True
    key, now_us = (merchant_id, asset), app.clock.now_us()
    left = app.credit_cache.get(key, now_us)
    if left is None:
        left = await app.store.read(balances.get_credit_left(merchant_id, asset, credit))
        app.credit_cache.put(key, left, now_us)
    return amount <= left
