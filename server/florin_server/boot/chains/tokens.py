"""Tokens as an operator names them, compared with their chain before they are written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from florin_server.boot.chains.setup import Reached
from florin_server.boot.home import Refused
from florin_server.chains.solana.spl import pubkey
from florin_server.domain.caip import checksum_address, evm_address
from florin_server.rails.evm.reading.node import Node as EvmNode
from florin_server.rails.evm.setup import tokens as evm_tokens
from florin_server.rails.networks.network import Token
from florin_server.rails.solana.reading.node import Node as SolanaNode
from florin_server.rails.solana.setup import tokens as solana_tokens


@dataclass(frozen=True, slots=True)
class Wish:
    """A token that an operator wants: by its symbol in the registry, or by its address."""

    text: str
    peg: str | None = None
    symbol: str | None = None

    @classmethod
    def of(cls, text: str) -> Wish:
        """Reads `SYMBOL`, or `ADDRESS`, `ADDRESS:PEG` or `ADDRESS:PEG:SYMBOL`; no peg: a rate."""
        address, _, rest = text.partition(":")
        peg, _, symbol = rest.partition(":")
        return cls(address, peg or None, symbol or None)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token as it goes into the settings: the registry's symbol, or all that was read.

    `told` says what was read.
    """

    symbol: str
    told: str
    said: dict[str, Any] | None = None


async def choose(reached: Reached, wish: Wish) -> Chosen:
    """Compares a token with its chain. Refused, in a sentence, if it cannot be taken."""
    known = None
    if reached.network is not None:
        known = reached.network.token(wish.text)
    address = _address(reached, wish) if known is None else known.address
    if known is None and reached.network is not None:
        known = reached.network.at(address)
    if known is not None and wish.peg not in {None, known.peg}:
        raise Refused(f"{known.symbol} is not worth one {wish.peg} on {reached.title}")
    if reached.is_solana:
        return await _choose_mint(reached, wish, address, known)
    return await _choose_token(reached, wish, evm_address(address), known)


def _address(reached: Reached, wish: Wish) -> str:
    try:
        return str(pubkey(wish.text)) if reached.is_solana else evm_address(wish.text)
    except ValueError:
        pass
    known = [] if reached.network is None else [one.symbol for one in reached.network.tokens]
    kinds = f"; registered are {', '.join(known)}" if known else ""
    raise Refused(
        f"{wish.text} is neither a token's address nor registered for {reached.title}{kinds}"
    )


async def _choose_token(reached: Reached, wish: Wish, address: str, known: Token | None) -> Chosen:
    found = await evm_tokens.read(EvmNode(reached.rpc), reached.number, address)
    place = f"{known.symbol if known else wish.text} at {checksum_address(address)}"
    if found is None:
        raise Refused(f"{reached.title}: {place} is no token")
    if known is not None and known.decimals not in {None, found.decimals}:
        raise Refused(
            f"{reached.title}: {place} has {found.decimals} decimals, not {known.decimals}"
        )
    own = found.domain is not None and found.by_signature
    by_signature = own if known is None else known.method == "eip3009"
    if by_signature and not own:
        raise Refused(f"{reached.title}: {place} does not take signed transfers")
    if by_signature and known is not None and known.domain not in {None, found.domain}:
        raise Refused(f"{reached.title}: {place} signs as {found.domain}, not as {known.domain}")
    signs = (
        f", signs as {found.domain[0]!r} version {found.domain[1]!r}"
        if (by_signature and found.domain)
        else ", by Permit2"
    )
    told = f"{place}: {found.name!r}, {found.decimals} decimals{signs}"
    symbol = wish.symbol or (known.symbol if known else found.symbol)
    peg = known.peg if known else wish.peg
    if known is not None and known.complete:
        return Chosen(symbol, told)
    said: dict[str, Any] = {
        "address": checksum_address(address),
        "name": known.name if known else found.name,
        "symbol": symbol,
        "decimals": found.decimals,
        "peg": peg,
        "method": "eip3009" if by_signature else "permit2",
    }
    if by_signature and found.domain is not None:
        said["domain_name"], said["domain_version"] = found.domain
    else:
        # an approval more where it was not needed, and payments where it was
        said["approve_from_zero"] = True
    return Chosen(symbol, told, said)


async def _choose_mint(reached: Reached, wish: Wish, mint: str, known: Token | None) -> Chosen:
    decimals = await solana_tokens.decimals(SolanaNode(reached.rpc), mint)
    symbol = wish.symbol or (known.symbol if known else None)
    if decimals is None:
        raise Refused(f"{reached.title}: {symbol or wish.text} at {mint} is no token")
    if symbol is None:
        raise Refused(f"a mint does not tell its symbol: {mint}:PEG:SYMBOL")
    if known is not None and known.decimals != decimals:
        raise Refused(
            f"{reached.title}: {symbol} at {mint} has {decimals} decimals, not {known.decimals}"
        )
    told = f"{symbol} at {mint}: {decimals} decimals"
    peg = known.peg if known else wish.peg
    if known is not None:
        return Chosen(symbol, told)
    said = {"mint": mint, "name": symbol, "symbol": symbol, "decimals": decimals, "peg": peg}
    return Chosen(symbol, told, said)
