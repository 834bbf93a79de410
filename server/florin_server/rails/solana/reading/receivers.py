"""The receiving accounts: whether they can receive, and already hold the token.

The owner of a token account can close it and keep the rent that the relayer paid. A transaction's
own bytes therefore say what it opens, and it opens only what it can.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from solders.message import MessageV0
from solders.pubkey import Pubkey

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.paying.terms import SolanaOptionTerms
from florin_server.rails.solana.reading.node import AccountView


@dataclass(frozen=True, slots=True)
class ReceiverCheck:
    """The result of checking a payment's receivers.

    `ready_owners` are the owners who have an account for the token; `problem` says, in a sentence,
    why a receiver cannot receive.
    """

    ready_owners: frozenset[str]
    problem: str | None


def list_receiver_accounts(terms: SolanaOptionTerms) -> list[Pubkey]:
    """Return the accounts to read: the owners, and their token accounts."""
    owners = [owner for owner, _ in terms.list_shares()]
    held_at = [] if terms.is_coin else [terms.get_token_address(owner) for owner in owners]
    return [*map(spl.parse_pubkey, owners), *held_at]


def check_receivers(
    terms: SolanaOptionTerms,
    accounts: Sequence[AccountView | None],
    rent: int,
    relayer: Pubkey,
    openable_accounts: Collection[AssetAccount],
) -> ReceiverCheck:
    """Check the accounts of `list_receiver_accounts`; `rent` is the least balance in lamports.

    An owner without an account for the token can receive only if its place is `openable_accounts`.
    """
    shares = terms.list_shares()
    owners, held_at = accounts[: len(shares)], accounts[len(shares) :]
    problem = None
    for (owner, amount), account in zip(shares, owners, strict=True):
        problem = problem or find_wallet_problem(owner, account)
        if terms.is_coin:
            problem = problem or find_rent_problem(owner, amount, account, rent)
            if owner == str(relayer):
                problem = problem or f"{owner} pays the fees, so it cannot receive too"
    ready = frozenset(
        owner
        for (owner, _), account in zip(shares, held_at, strict=not terms.is_coin)
        if is_token_account_of(account, owner, terms.mint)
    )
    for (owner, _), account in zip(shares, held_at, strict=not terms.is_coin):
        if owner in ready and is_frozen(account):
            problem = problem or f"the token {terms.mint} refuses {owner}: its account is frozen"
    for place in list_missing_accounts(terms, ready):
        if place not in openable_accounts:
            problem = problem or format_missing_account(place)
    return ReceiverCheck(ready, problem)


def list_missing_accounts(
    terms: SolanaOptionTerms, ready_owners: Collection[str]
) -> list[AssetAccount]:
    """Return the places of receivers without an account for the token; none for coin."""
    if terms.is_coin:
        return []
    owners = [owner for owner, _ in terms.list_shares() if owner not in ready_owners]
    return [build_asset_account(terms.chain_id, owner, terms.mint) for owner in owners]


def build_asset_account(chain_id: str, owner: str, mint: str) -> AssetAccount:
    """Return the place where an owner receives a token."""
    return AssetAccount(f"{chain_id}/token:{mint}", f"{chain_id}:{owner}")


def list_opened_accounts(chain_id: str, message: MessageV0) -> list[AssetAccount]:
    """Return the places that a message opens if they do not exist."""
    keys = message.account_keys
    opened = []
    for compiled_instruction in message.instructions:
        if keys[compiled_instruction.program_id_index] == spl.ASSOCIATED_TOKEN:
            _, _, owner, mint, *_ = (keys[index] for index in bytes(compiled_instruction.accounts))
            opened.append(build_asset_account(chain_id, str(owner), str(mint)))
    return opened


def format_missing_account(asset_account: AssetAccount) -> str:
    """Return why a missing place cannot receive and cannot be opened."""
    owner, mint = (text.rpartition(":")[2] for text in (asset_account.account, asset_account.asset))
    return (
        f"{owner} has no account for the token {mint}, and Florin opens none for it now: it "
        "opened one "
        "before, or too many today; the owner must open it"
    )


def find_wallet_problem(owner: str, account: AccountView | None) -> str | None:
    """Return why an account cannot own anything; None if it can."""
    # money sent to an account of a token program can never be moved again
    if account is not None and account.owner in spl.PROGRAMS:
        return f"{owner} is not a wallet, and cannot own tokens"
    return None


def find_rent_problem(
    owner: str, amount: int, account: AccountView | None, rent: int
) -> str | None:
    """Return why an account cannot take an amount of coin; None if it can."""
    has = account.lamports if account else 0
    if has + amount >= rent:
        return None
    return (
        f"{owner} would hold {has + amount} lamports, but every account must hold at least {rent}: "
        f"it needs {rent - has - amount} more first"
    )


def is_frozen(account: AccountView | None) -> bool:
    """Return True if the token's issuer lets no money leave or enter an account."""
    return (
        account is not None and account.token_account is not None and account.token_account.frozen
    )


def is_token_account_of(account: AccountView | None, owner: str, mint: str) -> bool:
    """Return True if an account holds a token for its owner."""
    held = account.token_account if account else None
    return held is not None and (str(held.owner), str(held.mint)) == (owner, mint)
