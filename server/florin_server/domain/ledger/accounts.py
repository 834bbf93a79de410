"""The accounts of the ledger; their names, and `docs/reference`, are made from this module."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class LedgerAccountKind(StrEnum):
    """The prefix of the name of an account."""

    WALLET = "wallet"
    MERCHANT = "merchant"
    HELD = "held"
    STRAY = "stray"
    INCOME = "income"
    EXPENSE = "expense"
    EXTERNAL = "external"


def wallet(account: str) -> str:
    """Return the account of a wallet of Florin: relayers have coin, treasuries coin and tokens."""
    return f"{LedgerAccountKind.WALLET}:{account}"


def merchant(merchant_id: str) -> str:
    """Return the account of a merchant: below zero if it is owed money, else above."""
    return f"{LedgerAccountKind.MERCHANT}:{merchant_id}"


def held_money(payer: str) -> str:
    """Return the account of a blocked payer's money that Florin holds; below zero."""
    return f"{LedgerAccountKind.HELD}:{payer}"


def stray_money(address: str) -> str:
    """Return the account of money that came to a payment's address and paid nothing; below zero."""
    return f"{LedgerAccountKind.STRAY}:{address}"


def outside_party(account: str) -> str:
    """Return the account of outside parties: payers, and merchants with their own destination."""
    return f"{LedgerAccountKind.EXTERNAL}:{account}"


FEE = f"{LedgerAccountKind.INCOME}:fee"
GAS = f"{LedgerAccountKind.EXPENSE}:gas"
RENT = f"{LedgerAccountKind.EXPENSE}:rent"
# the counterpart of what no payment explains
OPENING = f"{LedgerAccountKind.EXTERNAL}:opening"
OPERATOR = f"{LedgerAccountKind.EXTERNAL}:operator"

# accounts that exist once
SINGLE_ACCOUNTS: Mapping[str, str] = {
    FEE: "fees of payments, below zero",
    GAS: "fees of Florin's transactions",
    RENT: "native coin that Florin's transactions left in accounts that they opened, less what "
    "was returned",
    OPENING: "balances of wallets when their ledger opened, below zero",
    OPERATOR: "deposits of the operator, below zero, and withdrawals",
}


def parse_kind(account: str) -> LedgerAccountKind:
    """Return the kind of an account; ValueError for an unknown kind."""
    kind = account.partition(":")[0]
    if kind not in set(LedgerAccountKind):
        raise ValueError(f"unknown kind of account: {account}")
    return LedgerAccountKind(kind)


def kind_prefix(kind: LedgerAccountKind) -> str:
    """Return the prefix of the names of all accounts of a kind."""
    return f"{kind}:"
