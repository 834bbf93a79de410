"""Test money for those who ask for options: a step of its own, on chains that have a faucet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from florin_server.rails.protocol import Rail
from florin_server.rails.types import Payable


async def payable(
    rail: Rail, payers: Sequence[str], prices: Mapping[str, int], by_hand: Collection[str] = ()
) -> list[Payable]:
    """Who can pay what price, as the rail tells it.

    Those who lack something are given it first, where the money is worth nothing.
    """
    found = await rail.offers.payable(payers, prices, by_hand)
    if rail.faucet is None:
        return found
    # the usual gift may be less than a price
    for gift in (rail.faucet.give, rail.faucet.fill):
        if not _lacking(found, payers, prices):
            break
        await gift(payers, prices)
        found = await rail.offers.payable(payers, prices, by_hand)
    return found


def _lacking(found: Sequence[Payable], payers: Sequence[str], prices: Mapping[str, int]) -> bool:
    # one that may have to send its payment itself is told twice
    able = {(one.payer, one.asset) for one in found}
    return len(able) < len(set(payers)) * len(prices)
