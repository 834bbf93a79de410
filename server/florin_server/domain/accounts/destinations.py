"""Where a merchant wants an asset to go: the form of what it writes.

Money that is sent to a mistyped address is lost, so whatever can be told from the text alone is.
"""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.chains.solana.spl import SET_UP, pubkey
from florin_server.domain.caip import AccountId, evm_address, parse_account, parse_asset

_PREFIX = "caip19/"


@dataclass(frozen=True, slots=True)
class AssetAccount:
    """An asset (CAIP-19) and an account (CAIP-10) that receives it."""

    asset: str
    account: str

    @property
    def chain_id(self) -> str:
        """CAIP-2."""
        return self.account.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class Opening:
    """A place that is to be opened, and for whom: None for our own treasury."""

    place: AssetAccount
    merchant_id: str | None


@dataclass(frozen=True, slots=True)
class DailyCaps:
    """How many places may be opened in a day (UTC) on a chain.

    `partner` is for all merchants of one partner, who creates as many as it likes.
    """

    chain: int
    partner: int
    merchant: int


def read_asset(text: str) -> str:
    """The CAIP-19 asset as it is kept: as written, but without `caip19/`.

    It need not be one that anybody knows. ValueError says what is wrong with it.
    """
    asset = text.removeprefix(_PREFIX)
    try:
        parsed = parse_asset(asset)
    except ValueError:
        raise ValueError("must be a CAIP-19 asset type") from None
    if (parsed.chain.namespace, parsed.namespace) == ("eip155", "erc20"):
        _check_evm_address(parsed.reference)
    return asset


def read_destination(text: str) -> AccountId:
    """The CAIP-10 account that a destination is. ValueError says what is wrong with it."""
    try:
        account = parse_account(text)
    except ValueError:
        raise ValueError("must be a CAIP-10 account") from None
    if account.chain.namespace == "eip155":
        _check_evm_address(account.address)
    if account.chain.namespace == "solana":
        _check_solana_address(account.address)
    return account


def check_chain(account: AccountId, asset: str) -> None:
    """ValueError if an account is on another chain than the asset that is to go there."""
    chain = parse_asset(asset).chain
    if account.chain != chain:
        raise ValueError(f"must be an account on {chain}")


def _check_solana_address(text: str) -> None:
    try:
        key = pubkey(text)
    except ValueError:
        raise ValueError("must hold a Solana address") from None
    if key in SET_UP:
        raise ValueError("must not hold the address of a program")


def _check_evm_address(text: str) -> None:
    try:
        address = evm_address(text)
    except ValueError:
        raise ValueError("must hold an EVM address, in one case or as EIP-55 writes it") from None
    if not int(address, 16):
        raise ValueError("must not hold the zero address")
