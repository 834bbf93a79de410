"""Test money for accounts in an options call: a separate step, on chains with a faucet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from florin_server.rails.protocol import Rail
from florin_server.rails.types import PayableAsset


async def list_payables(
    rail: Rail,
    payers: Sequence[str],
    prices: Mapping[str, int],
    manual_payers: Collection[str] = (),
) -> list[PayableAsset]:
    """Return the accounts that can pay each price, as the rail reports them.

    On test chains, accounts that lack something receive it first.
    """
    payables = await rail.offers.list_payable(payers, prices, manual_payers)
    if rail.faucet is None:
        return payables
    # the usual gift can be less than a price
    for gift in (rail.faucet.give_usual, rail.faucet.fill_accounts):
        if not _lacks_funds(payables, payers, prices):
            break
        await gift(payers, prices)
        payables = await rail.offers.list_payable(payers, prices, manual_payers)
    return payables


def _lacks_funds(
    payables: Sequence[PayableAsset], payers: Sequence[str], prices: Mapping[str, int]
) -> bool:
    # an account that may have to send its payment itself is listed twice
    able = {(payable.payer, payable.asset) for payable in payables}
    return len(able) < len(set(payers)) * len(prices)
