"""Names of chains, accounts and assets: CAIP-2, CAIP-10, CAIP-19, and EVM addresses.

Parsing keeps the text as written; the `canonicalize_…` functions return the form to compare.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from eth_hash.auto import keccak

_CHAIN = r"(?P<chain_namespace>[-a-z0-9]{3,8}):(?P<chain_reference>[-_a-zA-Z0-9]{1,32})"
_CHAIN_ID = re.compile(_CHAIN)
_ACCOUNT_ID = re.compile(_CHAIN + r":(?P<address>[-.%a-zA-Z0-9]{1,128})")
_ASSET_ID = re.compile(
    _CHAIN + r"/(?P<namespace>[-a-z0-9]{3,8}):(?P<reference>[-.%a-zA-Z0-9]{1,128})"
)
_EVM_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
# errors never quote longer texts, because they come from strangers
_QUOTED_MAX = 80
# names that were parsed before: one payment has the same few names dozens of times
_CACHED_MAX = 4096


@dataclass(frozen=True, slots=True)
class ChainId:
    """A chain (CAIP-2), e.g. `eip155:8453`."""

    namespace: str
    reference: str

    def __str__(self) -> str:
        return f"{self.namespace}:{self.reference}"


@dataclass(frozen=True, slots=True)
class AccountId:
    """An account on a chain (CAIP-10), its address as written."""

    chain: ChainId
    address: str

    def __str__(self) -> str:
        return f"{self.chain}:{self.address}"


@dataclass(frozen=True, slots=True)
class AssetId:
    """A kind of asset on a chain (CAIP-19 without a token id), e.g. `eip155:1/slip44:60`."""

    chain: ChainId
    namespace: str
    reference: str

    def __str__(self) -> str:
        return f"{self.chain}/{self.namespace}:{self.reference}"


def parse_chain(text: str) -> ChainId:
    """Read a CAIP-2 chain id. ValueError if it is none."""
    return _to_chain(_match(_CHAIN_ID, text, "a CAIP-2 chain id"))


def parse_account(text: str) -> AccountId:
    """Read a CAIP-10 account id. ValueError if it is none."""
    match = _match(_ACCOUNT_ID, text, "a CAIP-10 account id")
    return AccountId(_to_chain(match), match["address"])


def parse_asset(text: str) -> AssetId:
    """Read a CAIP-19 asset type. ValueError if it is none, or names a single token."""
    match = _match(_ASSET_ID, text, "a CAIP-19 asset type")
    return AssetId(_to_chain(match), match["namespace"], match["reference"])


def parse_evm_address(text: str, *, checksum: bool = True) -> str:
    """Return an EVM address in lower case.

    Digits in one case pass; in mixed case they must be an EIP-55 checksum unless `checksum` is
    False. ValueError otherwise.
    """
    _match(_EVM_ADDRESS, text, "an EVM address")
    digits = text[2:]
    lower = text.lower()
    if not checksum or digits.islower() or digits.isupper() or digits.isdigit():
        return lower
    if text != format_checksum_address(lower):
        raise ValueError(f"address has a wrong checksum: {text}")
    return lower


@lru_cache(maxsize=_CACHED_MAX)
def format_checksum_address(lower: str) -> str:
    """Return an EVM address with the capitals of its EIP-55 checksum; ValueError if invalid."""
    digits = _match(_EVM_ADDRESS, lower, "an EVM address")[0][2:].lower()
    marks = keccak(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if mark >= "8" else digit for digit, mark in zip(digits, marks, strict=False)
    )


@lru_cache(maxsize=_CACHED_MAX)
def canonicalize_account(text: str, *, checksum: bool = True) -> str:
    """Return the CAIP-10 text in the form to compare: EVM addresses in lower case.

    ValueError if the text is not an account id, or has no EVM address where it must have one;
    `checksum` as for `parse_evm_address`.
    """
    account = parse_account(text)
    if account.chain.namespace != "eip155":
        return str(account)
    return f"{account.chain}:{parse_evm_address(account.address, checksum=checksum)}"


@lru_cache(maxsize=_CACHED_MAX)
def canonicalize_asset(text: str, *, checksum: bool = True) -> str:
    """Return the CAIP-19 text in the form to compare: ERC-20 addresses in lower case.

    ValueError as for `canonicalize_account`.
    """
    asset = parse_asset(text)
    if (asset.chain.namespace, asset.namespace) != ("eip155", "erc20"):
        return str(asset)
    return f"{asset.chain}/erc20:{parse_evm_address(asset.reference, checksum=checksum)}"


def _to_chain(match: re.Match[str]) -> ChainId:
    return ChainId(match["chain_namespace"], match["chain_reference"])


def _match(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"not {what}: {text[:_QUOTED_MAX]!r}")
    return match
