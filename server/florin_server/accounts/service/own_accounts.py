"""Accounts that cannot be a merchant's destination: those of this service, and those of the chain.

Money that arrives at a wallet of Florin must come from a buyer for whom Florin holds it. A merchant
that could name the relayer as its own account would move the treasury's refunds to a key that is
easier to steal. Money sent to a contract is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from florin_server.accounts.store import destinations
from florin_server.db.engine.query import Operation
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.payments.payment import Destination
from florin_server.rails.protocol import Rail
from florin_server.rails.wallets import list_wallets

# the number of misdirected places in one report; longer sentences are not read
_REPORTED_MAX = 20

ReadDestinations: TypeAlias = Callable[[Operation[list[Destination]]], Awaitable[list[Destination]]]


def find_reserved_role(rails: Iterable[Rail], account: str) -> str | None:
    """Return the role of an account (CAIP-10) that no merchant can use; None if it can.

    A wallet of Florin on one chain is Florin's on all chains of its kind: it is the same key.
    """
    account = canonicalize_account(account, checksum=False)
    chain_id, _, address = account.rpartition(":")
    elsewhere = None
    for rail in rails:
        if (role := rail.reserved_accounts.get(account)) is not None:
            return role
        if _get_namespace(rail.chain_id) == _get_namespace(chain_id) and _is_wallet(rail, address):
            elsewhere = "a wallet of this service on another chain"
    return elsewhere


def check(rails: Iterable[Rail], account: str) -> None:
    """Raise ValueError, about the account alone, if no merchant can use it."""
    if what := find_reserved_role(rails, account):
        raise ValueError(f"must not be {what}")


async def list_misdirected(
    rails: Iterable[Rail], read: ReadDestinations
) -> list[tuple[AssetAccount, str]]:
    """Return destinations that Florin no longer pays, each with a sentence about it.

    Registered before the accounts became ours, or by a version that did not look.
    """
    rails = list(rails)
    ours = {account for rail in rails for account in rail.reserved_accounts}
    ours |= {
        f"{rail.chain_id}:{wallet.rpartition(':')[2]}"
        for rail in rails
        for other in rails
        if _get_namespace(other.chain_id) == _get_namespace(rail.chain_id)
        for wallet in list_wallets(other)
    }
    found_destinations = await read(destinations.list_by_accounts(sorted(ours), _REPORTED_MAX))
    return [
        (
            AssetAccount(destination.asset, destination.account),
            (
                f"merchant {destination.merchant_id} wants {destination.asset} at "
                f"{destination.account}, but that is {what}"
            ),
        )
        for destination in found_destinations
        if (what := find_reserved_role(rails, destination.account)) is not None
    ]


def _is_wallet(rail: Rail, address: str) -> bool:
    return any(wallet.rpartition(":")[2] == address for wallet in list_wallets(rail))


def _get_namespace(chain_id: str) -> str:
    return chain_id.partition(":")[0]
