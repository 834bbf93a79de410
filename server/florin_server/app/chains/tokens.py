"""Tokens as an operator names them, compared with their chain before they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from florin_server.app.chains.setup import ProbedNode
from florin_server.app.home import SetupError
from florin_server.domain.caip import format_checksum_address, parse_evm_address
from florin_server.domain.chains.solana.spl import parse_pubkey
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.setup import tokens as evm_tokens
from florin_server.rails.networks.network import NetworkToken
from florin_server.rails.solana.reading.node import SolanaNode
from florin_server.rails.solana.setup import tokens as solana_tokens


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token that an operator wants: by its symbol in the registry, or by its address."""

    symbol_or_address: str
    peg: str | None = None
    symbol: str | None = None

    @classmethod
    def parse(cls, text: str) -> TokenRequest:
        """Read `SYMBOL`, or `ADDRESS`, `ADDRESS:PEG` or `ADDRESS:PEG:SYMBOL`; no PEG: a rate."""
        address, _, rest = text.partition(":")
        peg, _, symbol = rest.partition(":")
        return cls(address, peg or None, symbol or None)


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A token in the form of the settings: the registry's symbol, or all that was read.

    `description` describes what was read from the chain.
    """

    symbol: str
    description: str
    settings: dict[str, Any] | None = None


async def check_token(node: ProbedNode, token_request: TokenRequest) -> TokenChoice:
    """Compare a token with its chain; raise SetupError if it is not usable."""
    token = None
    if node.network is not None:
        token = node.network.find_token(token_request.symbol_or_address)
    address = _resolve_address(node, token_request) if token is None else token.address
    if token is None and node.network is not None:
        token = node.network.find_token_at(address)
    if token is not None and token_request.peg not in {None, token.peg}:
        raise SetupError(f"{token.symbol} is not worth one {token_request.peg} on {node.title}")
    if node.is_solana:
        return await _check_solana_mint(node, token_request, address, token)
    return await _check_evm_token(node, token_request, parse_evm_address(address), token)


def _resolve_address(node: ProbedNode, token_request: TokenRequest) -> str:
    try:
        return (
            str(parse_pubkey(token_request.symbol_or_address))
            if node.is_solana
            else parse_evm_address(token_request.symbol_or_address)
        )
    except ValueError:
        pass
    symbols = [] if node.network is None else [token.symbol for token in node.network.tokens]
    hint = f"; registered are {', '.join(symbols)}" if symbols else ""
    raise SetupError(
        f"{token_request.symbol_or_address} is neither the address of a token nor registered for "
        f"{node.title}{hint}"
    )


async def _check_evm_token(
    node: ProbedNode, token_request: TokenRequest, address: str, registered: NetworkToken | None
) -> TokenChoice:
    token = await evm_tokens.find_token(EvmNode(node.rpc), node.evm_chain_id, address)
    label = (
        f"{registered.symbol if registered else token_request.symbol_or_address} at "
        f"{format_checksum_address(address)}"
    )
    if token is None:
        raise SetupError(f"{node.title}: {label} is not a token")
    if registered is not None and registered.decimals not in {None, token.decimals}:
        raise SetupError(
            f"{node.title}: {label} has {token.decimals} decimals, not {registered.decimals}"
        )
    can_sign = token.domain is not None and token.has_signed_transfers
    uses_signature = can_sign if registered is None else registered.method == "eip3009"
    if uses_signature and not can_sign:
        raise SetupError(f"{node.title}: {label} does not accept signed transfers")
    if uses_signature and registered is not None and registered.domain not in {None, token.domain}:
        raise SetupError(
            f"{node.title}: {label} signs as {token.domain}, not as {registered.domain}"
        )
    method_text = (
        f", signs as {token.domain[0]!r} version {token.domain[1]!r}"
        if (uses_signature and token.domain)
        else ", by Permit2"
    )
    description = f"{label}: {token.name!r}, {token.decimals} decimals{method_text}"
    symbol = token_request.symbol or (registered.symbol if registered else token.symbol)
    peg = registered.peg if registered else token_request.peg
    if registered is not None and registered.is_complete:
        return TokenChoice(symbol, description)
    token_settings: dict[str, Any] = {
        "address": format_checksum_address(address),
        "name": registered.name if registered else token.name,
        "symbol": symbol,
        "decimals": token.decimals,
        "peg": peg,
        "method": "eip3009" if uses_signature else "permit2",
    }
    if uses_signature and token.domain is not None:
        token_settings["domain_name"], token_settings["domain_version"] = token.domain
    else:
        # costs an extra approval where none is necessary, but payments work where it is
        token_settings["approve_from_zero"] = True
    return TokenChoice(symbol, description, token_settings)


async def _check_solana_mint(
    node: ProbedNode, token_request: TokenRequest, mint: str, registered: NetworkToken | None
) -> TokenChoice:
    decimals = await solana_tokens.find_decimals(SolanaNode(node.rpc), mint)
    symbol = token_request.symbol or (registered.symbol if registered else None)
    if decimals is None:
        raise SetupError(
            f"{node.title}: {symbol or token_request.symbol_or_address} at {mint} is not a token"
        )
    if symbol is None:
        raise SetupError(f"a mint does not state its symbol: {mint}:PEG:SYMBOL")
    if registered is not None and registered.decimals != decimals:
        raise SetupError(
            f"{node.title}: {symbol} at {mint} has {decimals} decimals, not {registered.decimals}"
        )
    description = f"{symbol} at {mint}: {decimals} decimals"
    peg = registered.peg if registered else token_request.peg
    if registered is not None:
        return TokenChoice(symbol, description)
    token_settings = {
        "mint": mint,
        "name": symbol,
        "symbol": symbol,
        "decimals": decimals,
        "peg": peg,
    }
    return TokenChoice(symbol, description, token_settings)
