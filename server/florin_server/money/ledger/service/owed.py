"""What the operator owes to merchants, from the ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.ledger import accounts
from florin_server.money.ledger.store import ledger


@dataclass(frozen=True, slots=True)
class MerchantBalance:
    """A merchant's balance in one asset, in minor units: above zero is owed to the merchant.

    Below zero, refunds cost more than the operator held for the merchant.
    """

    merchant_id: str
    asset: str
    owed: int


async def list_merchant_balances(
    app: StorageContext, merchant_ids: Collection[str], assets: Collection[str]
) -> list[MerchantBalance]:
    """Return the balances of merchants in some assets, without those that are zero."""
    return await app.store.scan(_list_balances(tuple(merchant_ids), tuple(assets)))


@operation
def _list_balances(
    merchant_ids: Collection[str], assets: Collection[str]
) -> Op[list[MerchantBalance]]:
    by_account = {accounts.merchant(merchant_id): merchant_id for merchant_id in merchant_ids}
    balances = []
    for asset in assets:
        for account, value in (yield from ledger.get_balances(by_account, asset)).items():
            if value:
                balances.append(MerchantBalance(by_account[account], asset, -value))
    return balances
