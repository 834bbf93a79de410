"""The accounts that receive: whether they can, and whether they hold the token already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solders.pubkey import Pubkey

from florin_server.domain import spl
from florin_server.rails.solana.node import AccountView
from florin_server.rails.solana.terms import Terms


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
    terms: Terms, accounts: Sequence[AccountView | None], rent: int, relayer: Pubkey
) -> Receivers:
    """Judges the accounts that `places` names; `rent` is what any account must hold, lamports."""
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
        if _takes(terms, owner, account)
    )
    return Receivers(ready, problem)


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


def _takes(terms: Terms, owner: str, account: AccountView | None) -> bool:
    held = account.tokens if account else None
    return held is not None and (str(held.owner), str(held.mint)) == (owner, terms.mint)
