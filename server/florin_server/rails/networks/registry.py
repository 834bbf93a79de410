"""The registry of public networks: what settings take from it, and what contradicts it.

Whatever is in it is compared with the chain before it counts, so that a mistake costs an asset and
never money.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from florin_server.rails.networks.known_networks import NETWORKS, UNSUPPORTED
from florin_server.rails.networks.network import Network, Token, Unsupported

# somebody is always there to be written into a block; where money is worth nothing, not always
_STALLED_S: Final = 300

BY_ID: Final = {one.id: one for one in NETWORKS}
_UNSUPPORTED_BY_ID: Final = {one.id: one for one in UNSUPPORTED}


@dataclass(frozen=True, slots=True)
class Claim:
    """What an operator says about a token; `domain` only if it was said."""

    symbol: str
    address: str
    decimals: int
    peg: str | None
    domain: tuple[str, str] | None = None


def network(chain_id: str) -> Network | None:
    """The network of a CAIP-2 id; None if it is not known here."""
    return BY_ID.get(chain_id)


def unsupported(chain_id: str) -> Unsupported | None:
    """Return the network of a CAIP-2 id on which Florin cannot settle; None if none is known."""
    return _UNSUPPORTED_BY_ID.get(chain_id)


def is_test_network(chain_id: str) -> bool:
    """True if the registry knows that a chain's money is worth nothing."""
    known = network(chain_id)
    return known is not None and not known.live


def defaults_of(known: Network) -> dict[str, Any]:
    """The settings of a chain that need not be written down."""
    stalled_after_s = _STALLED_S if known.live else 0
    found = {"name": known.name, "live": known.live, "stalled_after_s": stalled_after_s}
    found |= asdict(known.pace)
    if not known.id.startswith("eip155:"):
        # Solana's nodes tell what is final
        del found["final_after_s"], found["finality_tag"]
        return found
    slip44 = None if known.coin is None else known.coin.slip44
    of_evm = {
        "native_slip44": slip44,
        "fee_token": known.fee_token,
        "gas_max": known.gas_max,
        "payment_gas_max": known.payment_gas_max,
    }
    return found | {name: value for name, value in of_evm.items() if value is not None}


def registered(known: Network | None, symbols: Iterable[str]) -> list[Token]:
    """The tokens that an operator named. ValueError for one that settings have to tell more of."""
    found = []
    for symbol in symbols:
        token = None if known is None else known.token(str(symbol))
        if token is None:
            raise ValueError(f"no token {symbol} is registered for this chain")
        if not token.complete:
            raise ValueError(
                f"{token.symbol} is registered without what only the chain can tell: "
                "`florin chain add` reads that and writes it down"
            )
        found.append(token)
    return found


def contradiction(chain_id: str, claim: Claim) -> str | None:
    """How a claim differs from what is known, as the end of a sentence; None if it does not."""
    known = network(chain_id)
    if known is None:
        return None
    same = known.at(claim.address)
    if same is None:
        namesake = known.token(claim.symbol)
        return None if namesake is None else f"is not {namesake.symbol}: that is {namesake.address}"
    if same.decimals is not None and claim.decimals != same.decimals:
        return f"has {same.decimals} decimals on {known.name}, not {claim.decimals}"
    if claim.peg is not None and claim.peg != same.peg:
        worth = "no fixed amount of a currency" if same.peg is None else f"one {same.peg}"
        return f"is worth {worth}, not one {claim.peg}"
    if None not in {claim.domain, same.domain} and claim.domain != same.domain:
        return f"signs as {_domain(same.domain)}, not {_domain(claim.domain)}"
    return None


def _domain(domain: tuple[str, str] | None) -> str:
    return "nobody" if domain is None else f"{domain[0]!r}, version {domain[1]!r}"
