"""What is known about a public network and the tokens on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from florin_server.domain.caip import canonical_asset

Method = Literal["eip3009", "permit2", "solana"]


@dataclass(frozen=True, slots=True)
class Coin:
    """A network's own coin, in which it charges for gas."""

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
    """How a network is followed: when a block is final, and how long a payment takes to be so.

    A final block has `confirmations`, blocks of `final_after_s` seconds on top of it, and is what
    nodes call `finality_tag`. `eta_s` is in seconds, from the confirm on.
    """

    confirmations: int
    poll_ms: int
    eta_s: int
    final_after_s: int = 0
    finality_tag: Literal["none", "safe", "finalized"] = "none"


@dataclass(frozen=True, slots=True)
class Network:
    """A public network; `id` is its CAIP-2 id.

    `source` names the public documents that its facts come from, `checked` the day (ISO 8601) on
    which they were compared with them last. A network without a coin charges fees in the token at
    `fee_token`. `gas_max` is set where its blocks are smaller than the usual bound of a
    transaction, `payment_gas_max` where a payment costs more than the usual bound.
    """

    id: str
    name: str
    live: bool
    coin: Coin | None
    pace: Pace
    tokens: tuple[Token, ...]
    source: str
    checked: str
    fee_token: str | None = None  # with its checksum
    gas_max: int | None = None
    payment_gas_max: int | None = None

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
    def gas_money(self) -> Coin | Token | None:
        """What gas is paid with: the coin, or the fee token; None if that is not registered."""
        if self.fee_token is None:
            return self.coin
        return self.at(self.fee_token)

    @property
    def coin_id(self) -> str | None:
        """The coin's CAIP-19 id; None where there is no coin."""
        return None if self.coin is None else f"{self.id}/slip44:{self.coin.slip44}"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A public network on which Florin cannot settle; `reason` is the end of a sentence."""

    id: str
    name: str
    reason: str
    source: str
    checked: str
