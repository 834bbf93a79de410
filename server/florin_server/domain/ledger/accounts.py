"""The accounts of the books. Nobody else writes their names; `docs/reference` is made of these."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    """How the name of an account begins."""

    WALLET = "wallet"
    MERCHANT = "merchant"
    HELD = "held"
    INCOME = "income"
    EXPENSE = "expense"
    EXTERNAL = "external"


def wallet(account: str) -> str:
    """What we hold on a chain: relayers hold coin, treasuries coin and tokens."""
    return f"{Kind.WALLET}:{account}"


def merchant(merchant_id: str) -> str:
    """What a merchant is owed, below zero, or owes, above zero."""
    return f"{Kind.MERCHANT}:{merchant_id}"


def held(payer: str) -> str:
    """What a blocked payer paid: it is with us, and nobody may have it. Below zero."""
    return f"{Kind.HELD}:{payer}"


def external(account: str) -> str:
    """Whoever pays us, and whoever is paid past us, as a merchant with its own destination is."""
    return f"{Kind.EXTERNAL}:{account}"


FEE = f"{Kind.INCOME}:fee"
GAS = f"{Kind.EXPENSE}:gas"
RENT = f"{Kind.EXPENSE}:rent"
# the other side of what no payment explains
BEGINNING = f"{Kind.EXTERNAL}:opening"
BY_OPERATOR = f"{Kind.EXTERNAL}:operator"

# those that there is one of
SINGLE: Mapping[str, str] = {
    FEE: "fees of payments, below zero",
    GAS: "fees of our transactions",
    RENT: "coin that our transactions left in accounts that they opened, less what came back",
    BEGINNING: "what wallets held when their books began, below zero",
    BY_OPERATOR: "what the operator put in, below zero, or took out",
}


def kind_of(account: str) -> Kind:
    """The kind of an account; ValueError if there is none such."""
    kind = account.partition(":")[0]
    if kind not in set(Kind):
        raise ValueError(f"unknown kind of account: {account}")
    return Kind(kind)


def prefix(kind: Kind) -> str:
    """What the names of all accounts of a kind begin with."""
    return f"{kind}:"
