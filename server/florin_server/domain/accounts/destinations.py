"""The form of merchants' settlement destinations.

Money sent to a mistyped address is lost, so everything that the text alone shows is checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.domain.caip import (
    AccountId,
    parse_account,
    parse_asset,
    parse_evm_address,
)
from florin_server.domain.chains.solana.spl import RESERVED_ADDRESSES, parse_pubkey

_PREFIX = "caip19/"


@dataclass(frozen=True, slots=True)
class AssetAccount:
    """An asset (CAIP-19) and an account (CAIP-10) that receives it."""

    asset: str
    account: str

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of the chain."""
        return self.account.rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class TokenAccountOpening:
    """An account to open, and its owner: None for Florin's own treasury."""

    destination: AssetAccount
    merchant_id: str | None


@dataclass(frozen=True, slots=True)
class DailyOpeningCaps:
    """The numbers of accounts that can be opened in a day (UTC) on a chain.

    `partner` applies to all merchants of one partner, because a partner can create any number of
    merchants.
    """

    chain: int
    partner: int
    merchant: int


def parse_destination_asset(text: str) -> str:
    """Return the CAIP-19 asset as it is stored: as written, but without `caip19/`.

    It can be an asset that Florin does not know. ValueError states the fault.
    """
    asset = text.removeprefix(_PREFIX)
    try:
        parsed = parse_asset(asset)
    except ValueError:
        raise ValueError("must be a CAIP-19 asset type") from None
    if (parsed.chain.namespace, parsed.namespace) == ("eip155", "erc20"):
        _check_evm_address(parsed.reference)
    return asset


def parse_destination(text: str) -> AccountId:
    """Return the CAIP-10 account of a destination. ValueError states the fault."""
    try:
        account = parse_account(text)
    except ValueError:
        raise ValueError("must be a CAIP-10 account") from None
    if account.chain.namespace == "eip155":
        _check_evm_address(account.address)
    if account.chain.namespace == "solana":
        _check_solana_address(account.address)
    return account


def check_same_chain(account: AccountId, asset: str) -> None:
    """Raise ValueError if an account is on another chain than the asset that it receives."""
    chain = parse_asset(asset).chain
    if account.chain != chain:
        raise ValueError(f"must be an account on {chain}")


def _check_solana_address(text: str) -> None:
    try:
        key = parse_pubkey(text)
    except ValueError:
        raise ValueError("must contain a valid Solana address") from None
    if key in RESERVED_ADDRESSES:
        raise ValueError("must not be the address of a program")


def _check_evm_address(text: str) -> None:
    try:
        address = parse_evm_address(text)
    except ValueError:
        raise ValueError(
            "must contain an EVM address in lower case, in upper case or with a valid EIP-55 "
            "checksum"
        ) from None
    if not int(address, 16):
        raise ValueError("must not be the zero address")
