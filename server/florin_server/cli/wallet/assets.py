"""Symbols and decimals of assets, from the registry or the chain, and never from the server."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from florin_client.wallet import JsonRpc, Question, WalletError
from florin_client.wallet.chains import Asking
from florin_client.wallet.terms import OptionTerms

from florin_server.chains.evm import abi
from florin_server.chains.solana import spl
from florin_server.devnet.genesis import DEVNET, DevToken
from florin_server.devnet.solana import SOLNET
from florin_server.devnet.solana.genesis import DevMint
from florin_server.rails.networks.registry import is_test_network, network

_EMBEDDED: Final = {
    f"eip155:{DEVNET.chain_id}": DEVNET.name,
    SOLNET.chain_id: SOLNET.name,
}
_DECIMALS_CALL: Final = abi.data_of(abi.selector("decimals()"))
_DECIMALS_MAX: Final = 36
# the name of a Solana chain is the beginning of its genesis hash
_GENESIS_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset as this machine or the chain knows it.

    `decimals` is None if neither does. `peg` is the ISO 4217 currency that it is worth one of.
    `symbol` is None unless this Florin knows the asset: anyone can give a token a known name.
    """

    id: str
    symbol: str | None
    decimals: int | None
    peg: str | None = None

    def format(self, value: int) -> str:
        """Return an amount of minor units as people read it."""
        if self.decimals is None:
            return f"{value} units of {self.id}"
        digits = f"{Decimal(f'{value}E-{self.decimals}'):f}"
        whole, _, rest = digits.partition(".")
        text = f"{whole}.{rest.rstrip('0').ljust(2, '0')}" if self.decimals else whole
        if self.symbol is not None:
            return f"{text} {self.symbol}"
        # a node may lie about decimals, and what is signed are minor units
        return f"{text} of {self.id} ({value} minor units)"


def is_test_chain(chain_id: str) -> bool:
    """Return True if this Florin knows that money on a chain is worth nothing."""
    return chain_id in _EMBEDDED or is_test_network(chain_id)


def chain_name(chain_id: str) -> str:
    """Return a chain's name, or its CAIP-2 id if this Florin does not know the chain."""
    known = network(chain_id)
    return _EMBEDDED.get(chain_id, chain_id) if known is None else known.name


def find_asset(terms: OptionTerms, nodes: Mapping[str, str]) -> Asset:
    """Look up what an option costs; a node is asked only for what this Florin does not know.

    WalletError if the node is of another chain, or answers nonsense.
    """
    known = _registered(terms) or _embedded(terms)
    if known is not None:
        return known
    if terms.token is None:
        return Asset(terms.asset, None, 18 if terms.is_evm else 9)
    if terms.chain_id not in nodes:
        return Asset(terms.asset, None, None)
    asking = _evm_decimals(terms) if terms.is_evm else _solana_decimals(terms)
    return Asset(terms.asset, None, JsonRpc(nodes).run(asking))


def _registered(terms: OptionTerms) -> Asset | None:
    chain = network(terms.chain_id)
    if chain is None:
        return None
    if terms.token is None:
        coin = chain.coin
        return None if coin is None else Asset(terms.asset, coin.symbol, coin.decimals)
    token = chain.at(terms.token)
    if token is None or token.decimals is None:
        return None
    return Asset(terms.asset, token.symbol, token.decimals, token.peg)


def _embedded(terms: OptionTerms) -> Asset | None:
    if terms.chain_id not in _EMBEDDED:
        return None
    if terms.token is None:
        symbol, decimals = ("ETH", 18) if terms.is_evm else ("SOL", 9)
        return Asset(terms.asset, symbol, decimals)
    tokens: tuple[DevToken | DevMint, ...] = (*DEVNET.tokens, *SOLNET.tokens)
    for token in tokens:
        if token.address == terms.token:
            return Asset(terms.asset, token.symbol, token.decimals, token.peg)
    return None


def _evm_decimals(terms: OptionTerms) -> Asking[int]:
    number = yield Question(terms.chain_id, "eth_chainId", ())
    if number != hex(int(terms.chain_id.partition(":")[2])):
        raise WalletError(f"the node is of another chain than {terms.chain_id}")
    call = {"to": terms.token, "data": _DECIMALS_CALL}
    answer = yield Question(terms.chain_id, "eth_call", (call, "latest"))
    try:
        word = bytes.fromhex(answer.removeprefix("0x"))
        decimals = int.from_bytes(word, "big") if len(word) == abi.WORD else None
    except (AttributeError, ValueError):
        decimals = None
    return _checked(decimals, terms)


def _solana_decimals(terms: OptionTerms) -> Asking[int]:
    genesis = yield Question(terms.chain_id, "getGenesisHash", ())
    if str(genesis)[:_GENESIS_CHARS] != terms.chain_id.partition(":")[2]:
        raise WalletError(f"the node is of another chain than {terms.chain_id}")
    params: tuple[Any, ...] = (terms.token, {"encoding": "base64"})
    answer = yield Question(terms.chain_id, "getAccountInfo", params)
    try:
        mint = spl.mint_of(base64.b64decode(answer["value"]["data"][0], validate=True))
    except (KeyError, TypeError, IndexError, ValueError, binascii.Error, struct.error):
        mint = None
    return _checked(None if mint is None else mint.decimals, terms)


def _checked(decimals: int | None, terms: OptionTerms) -> int:
    if decimals is None or decimals > _DECIMALS_MAX:
        raise WalletError(f"the node tells no decimals of {terms.asset}")
    return decimals
