"""The terms of an option: the account, the amount and the asset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin.v1.gateway_pb2 import PaymentOption

from florin_client.wallet.actions import WalletError

# from gRPC, or from REST in either profile
AnyOption: TypeAlias = "PaymentOption | Mapping[str, Any]"

_ADDRESS_CHARS = 42
_EVM_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_SOLANA_ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}")
_CHAIN = re.compile(r"eip155:[1-9][0-9]{0,18}|solana:[0-9A-Za-z]{1,32}")
_AMOUNT = re.compile(r"[1-9][0-9]{0,77}")
_SLIP44 = re.compile(r"slip44:[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class OptionTerms:
    """A parsed option. `amount` is in minor units of `asset`, a CAIP-19 id.

    `account` is an address without its chain; EVM addresses are lower-case. `token` is the
    contract, or the mint on Solana; None for native coin.
    """

    chain_id: str
    account: str
    asset: str
    token: str | None
    amount: int

    @property
    def is_evm(self) -> bool:
        """Return True on EVM chains, False on Solana."""
        return self.chain_id.startswith("eip155:")


def parse_option(option: AnyOption) -> OptionTerms:
    """Parse an option; raise WalletError unless account, asset and amount have their only form."""
    try:
        if isinstance(option, PaymentOption):
            account, unit, value = option.account, option.amount.unit, option.amount.value
        else:
            amount = option["amount"]
            account, unit, value = option["account"], amount["unit"], amount["value"]
        chain_id, _, address = account.rpartition(":")
        asset = unit.removeprefix("caip19/")
        where, _, name = asset.partition("/")
    except (KeyError, TypeError, AttributeError) as error:
        raise WalletError(f"the option cannot be parsed ({type(error).__name__})") from None
    if not _CHAIN.fullmatch(chain_id):
        raise WalletError(f"the option is for {chain_id[:80]!r}, an unsupported chain")
    if where != chain_id or asset == unit:
        raise WalletError(f"the option costs {unit[:120]!r}, which is not an asset on {chain_id}")
    if not isinstance(value, str) or not _AMOUNT.fullmatch(value):
        raise WalletError(f"the option costs {str(value)[:80]!r}, which is not an amount")
    is_evm = chain_id.startswith("eip155:")
    if int(value).bit_length() > (256 if is_evm else 64):
        raise WalletError(f"the option costs {value}, which is more than a chain can move")
    parse = parse_evm_address if is_evm else parse_solana_address
    account, token = parse(address), _parse_token(name, is_evm=is_evm)
    asset = asset if token is None or not is_evm else asset.replace(name, f"erc20:{token}")
    return OptionTerms(chain_id, account, asset, token, int(value))


def parse_evm_address(text: object) -> str:
    """Return the address in lower case; raise WalletError if the text is not an address."""
    if not isinstance(text, str) or not _EVM_ADDRESS.fullmatch(text):
        raise WalletError(f"{str(text)[:80]!r} is not an address")
    return text.lower()


def parse_solana_address(text: object) -> str:
    """Return the address; raise WalletError if the text is not an address."""
    if not isinstance(text, str) or not _SOLANA_ADDRESS.fullmatch(text):
        raise WalletError(f"{str(text)[:80]!r} is not an address of Solana")
    return text


def lowercase_addresses(document: Any, expected: Any) -> Any:
    """Return the document with addresses in lower case where `expected` has an address."""
    if isinstance(expected, dict) and isinstance(document, Mapping):
        return {
            name: lowercase_addresses(value, expected.get(name)) for name, value in document.items()
        }
    if isinstance(document, str) and isinstance(expected, str) and len(expected) == _ADDRESS_CHARS:
        return document.lower() if document.lower() == expected else document
    return document


def _parse_token(name: str, *, is_evm: bool) -> str | None:
    if _SLIP44.fullmatch(name):
        return None
    kind, _, address = name.partition(":")
    if is_evm and kind == "erc20":
        return parse_evm_address(address)
    if not is_evm and kind == "token":
        return parse_solana_address(address)
    raise WalletError(f"the option costs {name[:80]!r}, which this wallet cannot pay")
