"""The accounts that receive: whether they can, and whether they hold the token already.

Whoever owns a token account may close it and keep the rent that the relayer paid: what a
transaction opens is told by its own bytes, and it opens nothing but what it may.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from solders.message import MessageV0
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.rails.solana.paying.terms import Terms
from florin_server.rails.solana.reading.node import AccountView


@dataclass(frozen=True, slots=True)
class Receivers:
    """What was found out about those whom a payment goes to.

    `ready` are the owners who have an account for the token; `problem` says, in a sentence, why
    one of them cannot receive.
    """

    ready: frozenset[str]
    problem: str | None


def places(terms: Terms) -> list[Pubkey]:
    """The accounts to be read: the owners, and where they hold the token."""
    owners = [owner for owner, _ in terms.shares()]
    held_at = [] if terms.is_coin else [terms.place(owner) for owner in owners]
    return [*map(spl.pubkey, owners), *held_at]


def judge(
    terms: Terms,
    accounts: Sequence[AccountView | None],
    rent: int,
    relayer: Pubkey,
    openable: Collection[AssetAccount],
) -> Receivers:
    """Judges the accounts that `places` names; `rent` is what any account must hold, lamports.

    Whoever has no account for the token can receive only if it is among the `openable`.
    """
    shares = terms.shares()
    owners, held_at = accounts[: len(shares)], accounts[len(shares) :]
    problem = None
    for (owner, amount), account in zip(shares, owners, strict=True):
        problem = problem or not_a_wallet(owner, account)
        if terms.is_coin:
            problem = problem or short_of_rent(owner, amount, account, rent)
            if owner == str(relayer):
                problem = problem or f"{owner} pays the fees, and cannot receive beside that"
    ready = frozenset(
        owner
        for (owner, _), account in zip(shares, held_at, strict=not terms.is_coin)
        if holds(account, owner, terms.mint)
    )
    for (owner, _), account in zip(shares, held_at, strict=not terms.is_coin):
        if owner in ready and is_frozen(account):
            problem = problem or f"the token {terms.mint} refuses {owner}: its account is frozen"
    for place in wanting(terms, ready):
        if place not in openable:
            problem = problem or no_account(place)
    return Receivers(ready, problem)


def wanting(terms: Terms, ready: Collection[str]) -> list[AssetAccount]:
    """The places of the receivers who are not ready to take a token; none for coin."""
    if terms.is_coin:
        return []
    owners = [owner for owner, _ in terms.shares() if owner not in ready]
    return [place_of(terms.chain_id, owner, terms.mint) for owner in owners]


def place_of(chain_id: str, owner: str, mint: str) -> AssetAccount:
    """Where an owner receives a token."""
    return AssetAccount(f"{chain_id}/token:{mint}", f"{chain_id}:{owner}")


def opened_by(chain_id: str, message: MessageV0) -> list[AssetAccount]:
    """The places that a message opens unless they are there."""
    keys = message.account_keys
    opened = []
    for one in message.instructions:
        if keys[one.program_id_index] == spl.ASSOCIATED:
            _, _, owner, mint, *_ = (keys[index] for index in bytes(one.accounts))
            opened.append(place_of(chain_id, str(owner), str(mint)))
    return opened


def no_account(place: AssetAccount) -> str:
    """Why a place cannot receive that is not there, and may not be opened."""
    owner, mint = (text.rpartition(":")[2] for text in (place.account, place.asset))
    return (
        f"{owner} has no account for the token {mint}, and none is opened for it now: one was "
        "before, or too many were today; it has to open one itself"
    )


def not_a_wallet(owner: str, account: AccountView | None) -> str | None:
    """Why an account cannot own anything; None if it can."""
    # what an account of a token program is sent can never be moved again
    if account is not None and account.owner in spl.PROGRAMS:
        return f"{owner} is no wallet, and cannot own"
    return None


def short_of_rent(owner: str, amount: int, account: AccountView | None, rent: int) -> str | None:
    """Why an account cannot take an amount of coin; None if it can."""
    has = account.lamports if account else 0
    if has + amount >= rent:
        return None
    return (
        f"{owner} would hold {has + amount} lamports, and no account may hold less than {rent}: "
        f"it needs {rent - has - amount} more first"
    )


def is_frozen(account: AccountView | None) -> bool:
    """True if whoever issued a token lets nothing of it leave or enter an account."""
    return account is not None and account.tokens is not None and account.tokens.frozen


def holds(account: AccountView | None, owner: str, mint: str) -> bool:
    """True if an account holds a token for its owner."""
    held = account.tokens if account else None
    return held is not None and (str(held.owner), str(held.mint)) == (owner, mint)
