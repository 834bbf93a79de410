"""The registry of public networks: defaults for settings, and contradictions with them.

Each entry is compared with the chain before it counts, so that a mistake costs an asset and never
money.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from florin_server.rails.networks.known_networks import NETWORKS, UNSUPPORTED
from florin_server.rails.networks.network import NetworkToken, PublicNetwork, UnsupportedNetwork

# on live networks a transaction always waits for a block; on test networks not always
_STALLED_S: Final = 300

NETWORKS_BY_ID: Final = {network.id: network for network in NETWORKS}
_UNSUPPORTED_BY_ID: Final = {network.id: network for network in UNSUPPORTED}


@dataclass(frozen=True, slots=True)
class TokenClaim:
    """An operator's claim about a token; `domain` is set only if the operator stated it."""

    symbol: str
    address: str
    decimals: int
    peg: str | None
    domain: tuple[str, str] | None = None


def find_network(chain_id: str) -> PublicNetwork | None:
    """Return the network of a CAIP-2 id; None if the registry does not have it."""
    return NETWORKS_BY_ID.get(chain_id)


def find_unsupported(chain_id: str) -> UnsupportedNetwork | None:
    """Return the network of a CAIP-2 id on which Florin cannot settle; None if it is not listed."""
    return _UNSUPPORTED_BY_ID.get(chain_id)


def is_test_network(chain_id: str) -> bool:
    """Return True if the registry lists a chain as a test network."""
    network = find_network(chain_id)
    return network is not None and not network.live


def get_defaults(network: PublicNetwork) -> dict[str, Any]:
    """Return the settings of a chain that an operator can leave out."""
    stalled_after_s = _STALLED_S if network.live else 0
    defaults = {"name": network.name, "live": network.live, "stalled_after_s": stalled_after_s}
    defaults |= asdict(network.pace)
    if not network.id.startswith("eip155:"):
        # Solana's nodes report what is final
        del defaults["final_after_s"], defaults["finality_tag"]
        return defaults
    slip44 = None if network.coin is None else network.coin.slip44
    of_evm = {
        "native_slip44": slip44,
        "fee_token": network.fee_token,
        "gas_max": network.gas_max,
        "payment_gas_max": network.payment_gas_max,
    }
    return defaults | {name: value for name, value in of_evm.items() if value is not None}


def list_registered_tokens(
    network: PublicNetwork | None, symbols: Iterable[str]
) -> list[NetworkToken]:
    """Return the named tokens; raise ValueError for a token that needs more settings."""
    tokens = []
    for symbol in symbols:
        token = None if network is None else network.find_token(str(symbol))
        if token is None:
            raise ValueError(f"no token {symbol} is registered for this chain")
        if not token.is_complete:
            raise ValueError(
                f"the registry lacks data of {token.symbol} that only the chain has: "
                "`florin chain add` reads and stores it"
            )
        tokens.append(token)
    return tokens


def find_contradiction(chain_id: str, claim: TokenClaim) -> str | None:
    """Return how a claim contradicts the registry, as the end of a sentence; else None."""
    network = find_network(chain_id)
    if network is None:
        return None
    same = network.find_token_at(claim.address)
    if same is None:
        namesake = network.find_token(claim.symbol)
        return None if namesake is None else f"is not {namesake.symbol}: that is {namesake.address}"
    if same.decimals is not None and claim.decimals != same.decimals:
        return f"has {same.decimals} decimals on {network.name}, not {claim.decimals}"
    if claim.peg is not None and claim.peg != same.peg:
        worth = "no fixed amount of a currency" if same.peg is None else f"one {same.peg}"
        return f"is worth {worth}, not one {claim.peg}"
    if None not in {claim.domain, same.domain} and claim.domain != same.domain:
        return f"signs as {_format_domain(same.domain)}, not {_format_domain(claim.domain)}"
    return None


def _format_domain(domain: tuple[str, str] | None) -> str:
    return "no name" if domain is None else f"{domain[0]!r}, version {domain[1]!r}"
