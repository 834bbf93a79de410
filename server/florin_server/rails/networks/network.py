"""Facts about a public network and its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from florin_server.domain.caip import canonicalize_asset

TokenMethod = Literal["eip3009", "permit2", "solana"]


@dataclass(frozen=True, slots=True)
class NetworkCoin:
    """A network's native coin, in which it charges for gas."""

    name: str
    symbol: str
    slip44: int
    decimals: int = 18


@dataclass(frozen=True, slots=True)
class NetworkToken:
    """A token. `peg` is the ISO 4217 currency of which it is worth one unit; None: it has a rate.

    `domain` is the name and version of its EIP-3009 signatures. If it, or `decimals`, is None, the
    value is read from the chain.
    """

    symbol: str
    name: str
    address: str  # with its checksum
    decimals: int | None
    peg: str | None
    method: TokenMethod
    domain: tuple[str, str] | None = None
    approve_from_zero: bool = False

    @property
    def is_complete(self) -> bool:
        """Return True if nothing must be read from the chain."""
        return self.decimals is not None and (self.method != "eip3009" or self.domain is not None)


@dataclass(frozen=True, slots=True)
class NetworkPace:
    """A network's finality rule and polling, and the usual time until a payment is final.

    A final block has `confirmations`, is followed by blocks of `final_after_s` seconds, and has
    been reached by the nodes' tag `finality_tag`. `eta_s` is in seconds from the confirm on.
    """

    confirmations: int
    poll_ms: int
    eta_s: int
    final_after_s: int = 0
    finality_tag: Literal["none", "safe", "finalized"] = "none"


@dataclass(frozen=True, slots=True)
class PublicNetwork:
    """A public network; `id` is its CAIP-2 id.

    `source` names the public documents of its facts, `checked_on` the day (ISO 8601) of the last
    comparison with them. A network without a coin charges fees in the token at `fee_token`.
    `gas_max` is set where blocks are smaller than the usual limit of a transaction,
    `payment_gas_max` where a payment costs more than the usual limit.
    """

    id: str
    name: str
    live: bool
    coin: NetworkCoin | None
    pace: NetworkPace
    tokens: tuple[NetworkToken, ...]
    source: str
    checked_on: str
    fee_token: str | None = None  # with its checksum
    gas_max: int | None = None
    payment_gas_max: int | None = None

    def find_token(self, symbol: str) -> NetworkToken | None:
        """Return the token with that symbol, ignoring case; None if the network has none."""
        folded_symbol = symbol.casefold()
        return next(
            (token for token in self.tokens if token.symbol.casefold() == folded_symbol), None
        )

    def find_token_at(self, address: str) -> NetworkToken | None:
        """Return the token at an address in any spelling; None if it is not known."""
        asset_id = self.to_asset_id(address)
        return next(
            (token for token in self.tokens if self.to_asset_id(token.address) == asset_id), None
        )

    def to_asset_id(self, address: str) -> str:
        """Return a token's CAIP-19 id, for comparisons."""
        kind = "erc20" if self.id.startswith("eip155:") else "token"
        return canonicalize_asset(f"{self.id}/{kind}:{address}", checksum=False)

    @property
    def gas_money(self) -> NetworkCoin | NetworkToken | None:
        """Return the money that pays for gas: the coin or the fee token; None if unregistered."""
        if self.fee_token is None:
            return self.coin
        return self.find_token_at(self.fee_token)

    @property
    def coin_id(self) -> str | None:
        """Return the coin's CAIP-19 id; None if the network has no coin."""
        return None if self.coin is None else f"{self.id}/slip44:{self.coin.slip44}"


@dataclass(frozen=True, slots=True)
class UnsupportedNetwork:
    """A public network on which Florin cannot settle; `reason` is the end of a sentence."""

    id: str
    name: str
    reason: str
    source: str
    checked_on: str
