"""Find symbols and decimals of assets in the registry or on the chain, never on the server."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from florin_client.wallet import FORWARDER, JsonRpc, Question, WalletError
from florin_client.wallet.chains import ChainProcedure
from florin_client.wallet.terms import OptionTerms

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.solana import spl
from florin_server.rails.networks.embedded import EMBEDDED_NETWORKS
from florin_server.rails.networks.registry import find_network, is_test_network

_EMBEDDED: Final = {network.chain_id: network for network in EMBEDDED_NETWORKS}
_DECIMALS_CALL: Final = abi.to_hex(abi.encode_selector("decimals()"))
_DECIMALS_MAX: Final = 36
# the reference of a Solana chain is the beginning of its genesis hash
_GENESIS_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class KnownAsset:
    """An asset, with facts from this machine or from the chain.

    `decimals` is None if neither knows them. `peg` is the ISO 4217 currency of which it is worth
    one unit. `symbol` is None unless this Florin knows the asset: anyone can give a token a known
    name.
    """

    id: str
    symbol: str | None
    decimals: int | None
    peg: str | None = None

    def format(self, value: int) -> str:
        """Format an amount of minor units for people."""
        if self.decimals is None:
            return f"{value} units of {self.id}"
        digits = f"{Decimal(f'{value}E-{self.decimals}'):f}"
        total, _, rest = digits.partition(".")
        text = f"{total}.{rest.rstrip('0').ljust(2, '0')}" if self.decimals else total
        if self.symbol is not None:
            return f"{text} {self.symbol}"
        # a node can lie about decimals, and the signature covers minor units
        return f"{text} of {self.id} ({value} minor units)"


def is_known_test_chain(chain_id: str) -> bool:
    """Return True if this Florin knows the chain as a test chain, whose money has no value."""
    return chain_id in _EMBEDDED or is_test_network(chain_id)


def get_chain_name(chain_id: str) -> str:
    """Return a chain's name, or its CAIP-2 id if this Florin does not know the chain."""
    network = find_network(chain_id)
    named = network or _EMBEDDED.get(chain_id)
    return chain_id if named is None else named.name


def get_forwarder(chain_id: str) -> str:
    """Return the contract that gives payments addresses on a chain (CAIP-2)."""
    embedded = _EMBEDDED.get(chain_id)
    return FORWARDER if embedded is None else embedded.forwarder


def find_asset(terms: OptionTerms, nodes: Mapping[str, str]) -> KnownAsset:
    """Find the asset of an option; ask a node only if this Florin does not know the asset.

    WalletError if the node serves another chain, or its answer makes no sense.
    """
    asset = _find_registered(terms) or _find_embedded(terms)
    if asset is not None:
        return asset
    if terms.token is None:
        return KnownAsset(terms.asset, None, 18 if terms.is_evm else 9)
    if terms.chain_id not in nodes:
        return KnownAsset(terms.asset, None, None)
    asking = _read_evm_decimals(terms) if terms.is_evm else _read_solana_decimals(terms)
    return KnownAsset(terms.asset, None, JsonRpc(nodes).run(asking))


def _find_registered(terms: OptionTerms) -> KnownAsset | None:
    chain = find_network(terms.chain_id)
    if chain is None:
        return None
    if terms.token is None:
        coin = chain.coin
        return None if coin is None else KnownAsset(terms.asset, coin.symbol, coin.decimals)
    token = chain.find_token_at(terms.token)
    if token is None or token.decimals is None:
        return None
    return KnownAsset(terms.asset, token.symbol, token.decimals, token.peg)


def _find_embedded(terms: OptionTerms) -> KnownAsset | None:
    network = _EMBEDDED.get(terms.chain_id)
    if network is None:
        return None
    if terms.token is None:
        symbol, decimals = ("ETH", 18) if terms.is_evm else ("SOL", 9)
        return KnownAsset(terms.asset, symbol, decimals)
    for token in network.tokens:
        if token.address == terms.token:
            return KnownAsset(terms.asset, token.symbol, token.decimals, token.peg)
    return None


def _read_evm_decimals(terms: OptionTerms) -> ChainProcedure[int]:
    number = yield Question(terms.chain_id, "eth_chainId", ())
    if number != hex(int(terms.chain_id.partition(":")[2])):
        raise WalletError(f"the node does not serve {terms.chain_id}: check --rpc-url")
    call = {"to": terms.token, "data": _DECIMALS_CALL}
    answer = yield Question(terms.chain_id, "eth_call", (call, "latest"))
    try:
        word = bytes.fromhex(answer.removeprefix("0x"))
        decimals = int.from_bytes(word, "big") if len(word) == abi.WORD else None
    except (AttributeError, ValueError):
        decimals = None
    return _require_decimals(decimals, terms)


def _read_solana_decimals(terms: OptionTerms) -> ChainProcedure[int]:
    genesis = yield Question(terms.chain_id, "getGenesisHash", ())
    if str(genesis)[:_GENESIS_CHARS] != terms.chain_id.partition(":")[2]:
        raise WalletError(f"the node does not serve {terms.chain_id}: check --rpc-url")
    params: tuple[Any, ...] = (terms.token, {"encoding": "base64"})
    answer = yield Question(terms.chain_id, "getAccountInfo", params)
    try:
        mint = spl.parse_mint(base64.b64decode(answer["value"]["data"][0], validate=True))
    except (KeyError, TypeError, IndexError, ValueError, binascii.Error, struct.error):
        mint = None
    return _require_decimals(None if mint is None else mint.decimals, terms)


def _require_decimals(decimals: int | None, terms: OptionTerms) -> int:
    if decimals is None or decimals > _DECIMALS_MAX:
        raise WalletError(f"the node returns no valid decimals for {terms.asset}")
    return decimals
