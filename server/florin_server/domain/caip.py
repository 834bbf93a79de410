"""Names of chains, accounts and assets: CAIP-2, CAIP-10, CAIP-19, and EVM addresses.

Parsing keeps what was written; the `canonical_…` functions give the one text to compare by.
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
# longer texts are never quoted in an error, they come from strangers
_QUOTED_MAX = 80
# names that were read before: one payment has the same few read dozens of times
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
    """Reads a CAIP-2 chain id. ValueError if it is none."""
    return _chain(_match(_CHAIN_ID, text, "a CAIP-2 chain id"))


def parse_account(text: str) -> AccountId:
    """Reads a CAIP-10 account id. ValueError if it is none."""
    found = _match(_ACCOUNT_ID, text, "a CAIP-10 account id")
    return AccountId(_chain(found), found["address"])


def parse_asset(text: str) -> AssetId:
    """Reads a CAIP-19 asset type. ValueError if it is none, or names a single token."""
    found = _match(_ASSET_ID, text, "a CAIP-19 asset type")
    return AssetId(_chain(found), found["namespace"], found["reference"])


def evm_address(text: str, *, checksum: bool = True) -> str:
    """Gives an EVM address in lower case.

    Digits in one case pass; in mixed case they must be an EIP-55 checksum unless `checksum` is
    False. ValueError otherwise.
    """
    _match(_EVM_ADDRESS, text, "an EVM address")
    digits = text[2:]
    lower = text.lower()
    if not checksum or digits.islower() or digits.isupper() or digits.isdigit():
        return lower
    if text != checksum_address(lower):
        raise ValueError(f"address has a wrong checksum: {text}")
    return lower


@lru_cache(maxsize=_CACHED_MAX)
def checksum_address(lower: str) -> str:
    """Gives an EVM address the capitals of its EIP-55 checksum. ValueError if it is none."""
    digits = _match(_EVM_ADDRESS, lower, "an EVM address")[0][2:].lower()
    marks = keccak(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if mark >= "8" else digit for digit, mark in zip(digits, marks, strict=False)
    )


def canonical_account(text: str, *, checksum: bool = True) -> str:
    """Gives the CAIP-10 text to compare accounts by: EVM addresses in lower case.

    ValueError if the text is no account id, or no EVM address where it must be one; `checksum` as
    for `evm_address`.
    """
    account = parse_account(text)
    if account.chain.namespace != "eip155":
        return str(account)
    return f"{account.chain}:{evm_address(account.address, checksum=checksum)}"


@lru_cache(maxsize=_CACHED_MAX)
def canonical_asset(text: str, *, checksum: bool = True) -> str:
    """Gives the CAIP-19 text to compare assets by: ERC-20 addresses in lower case.

    ValueError as for `canonical_account`.
    """
    asset = parse_asset(text)
    if (asset.chain.namespace, asset.namespace) != ("eip155", "erc20"):
        return str(asset)
    return f"{asset.chain}/erc20:{evm_address(asset.reference, checksum=checksum)}"


def _chain(found: re.Match[str]) -> ChainId:
    return ChainId(found["chain_namespace"], found["chain_reference"])


def _match(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"not {what}: {text[:_QUOTED_MAX]!r}")
    return found
