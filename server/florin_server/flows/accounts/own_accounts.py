"""Accounts that no merchant's money may go to: those of this service, and those of the chain.

Money that comes to a wallet of ours must have come from a buyer for whom we hold it. A merchant
who could name our relayer as its own account would move what the treasury pays back to a key that
is kept where it can be stolen, and whatever goes to a contract is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonical_account
from florin_server.domain.payments.payment import Destination
from florin_server.flows.ledger.postings import wallets_of
from florin_server.rails.protocol import Rail
from florin_server.store.accounts import destinations
from florin_server.store.engine.query import Operation

# what is told at once of places that are not paid to; a sentence with more is not read
_TOLD_MAX = 20

Read: TypeAlias = Callable[[Operation[list[Destination]]], Awaitable[list[Destination]]]


def reserved(rails: Iterable[Rail], account: str) -> str | None:
    """What an account (CAIP-10) is that no merchant may name as its own; None if it may.

    A wallet of ours on one chain is ours on all chains of its kind: it is the same key.
    """
    account = canonical_account(account, checksum=False)
    chain_id, _, address = account.rpartition(":")
    elsewhere = None
    for rail in rails:
        if (found := rail.reserved.get(account)) is not None:
            return found
        if _kind(rail.chain_id) == _kind(chain_id) and _is_wallet(rail, address):
            elsewhere = "a wallet of this service on another chain"
    return elsewhere


def check(rails: Iterable[Rail], account: str) -> None:
    """ValueError, about the account alone, if no merchant may name it as its own."""
    if what := reserved(rails, account):
        raise ValueError(f"must not be {what}")


async def misdirected(rails: Iterable[Rail], read: Read) -> list[tuple[AssetAccount, str]]:
    """Places of merchants that nothing is paid to any more, each with a sentence about it.

    Registered before the accounts became ours, or by a version that did not look.
    """
    rails = list(rails)
    ours = {account for rail in rails for account in rail.reserved}
    ours |= {
        f"{rail.chain_id}:{wallet.rpartition(':')[2]}"
        for rail in rails
        for other in rails
        if _kind(other.chain_id) == _kind(rail.chain_id)
        for wallet in wallets_of(other)
    }
    found = await read(destinations.going_to(sorted(ours), _TOLD_MAX))
    return [
        (
            AssetAccount(one.asset, one.account),
            f"merchant {one.merchant_id} wants {one.asset} at {one.account}, but that is {what}",
        )
        for one in found
        if (what := reserved(rails, one.account)) is not None
    ]


def _is_wallet(rail: Rail, address: str) -> bool:
    return any(one.rpartition(":")[2] == address for one in wallets_of(rail))


def _kind(chain_id: str) -> str:
    return chain_id.partition(":")[0]
