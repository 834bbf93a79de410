"""What is known about a public network and the tokens on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from florin_server.domain.caip import canonical_asset

Method = Literal["eip3009", "permit2", "solana"]


@dataclass(frozen=True, slots=True)
class Coin:
    """What gas is paid in."""

    name: str
    symbol: str
    slip44: int
    decimals: int = 18


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `peg` is the ISO 4217 currency that it is worth one of; None: it has a rate.

    `domain` is name and version of its EIP-3009 signatures. None in it, or in `decimals`, is to be
    read from the chain.
    """

    symbol: str
    name: str
    address: str  # with its checksum
    decimals: int | None
    peg: str | None
    method: Method
    domain: tuple[str, str] | None = None
    approve_from_zero: bool = False

    @property
    def complete(self) -> bool:
        """True if nothing has to be read from the chain."""
        return self.decimals is not None and (self.method != "eip3009" or self.domain is not None)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a network is followed: final after so many blocks, which takes `eta_s` seconds."""

    confirmations: int
    poll_ms: int
    eta_s: int


@dataclass(frozen=True, slots=True)
class Network:
    """A public network; `id` is its CAIP-2 id."""

    id: str
    name: str
    live: bool
    coin: Coin
    pace: Pace
    tokens: tuple[Token, ...]

    def token(self, symbol: str) -> Token | None:
        """The token of that symbol, whatever its capitals."""
        wanted = symbol.casefold()
        return next((one for one in self.tokens if one.symbol.casefold() == wanted), None)

    def at(self, address: str) -> Token | None:
        """The token at an address, in the network's own spelling of it."""
        wanted = self.asset_id(address)
        return next((one for one in self.tokens if self.asset_id(one.address) == wanted), None)

    def asset_id(self, address: str) -> str:
        """A token's CAIP-19 id, the text to compare by."""
        kind = "erc20" if self.id.startswith("eip155:") else "token"
        return canonical_asset(f"{self.id}/{kind}:{address}", checksum=False)

    @property
    def coin_id(self) -> str:
        """The coin's CAIP-19 id."""
        return f"{self.id}/slip44:{self.coin.slip44}"
