"""Public networks and the tokens on them that Florin knows: facts that do not change.

What nobody saw is None and is read from the chain. Whatever is here is compared with the chain
before it counts, so that a mistake costs an asset and never money.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from florin_server.rails.networks.network import Coin, Network, Pace, Token

_ETHER: Final = Coin("Ether", "ETH", 60)

# Ethereum: a quarter of an epoch and more; reorgs of more than two blocks are news.
_ETHEREUM: Final = Pace(confirmations=12, poll_ms=4_000, eta_s=150)
# BSC: votes make a block final after two; five times that, in blocks of less than a second.
_BSC: Final = Pace(confirmations=10, poll_ms=1_000, eta_s=10)
# Polygon: milestones make blocks final after some seconds; two-second blocks, half a minute.
_POLYGON: Final = Pace(confirmations=16, poll_ms=2_000, eta_s=35)
# Monad: final two blocks later, each 0.4 s.
_MONAD: Final = Pace(confirmations=5, poll_ms=500, eta_s=3)
# Rollups: one sequencer orders blocks (two seconds on OP chains, one on Celo, a quarter on
# Arbitrum); some of them outlast a sequencer that restarts.
_OP_CHAIN: Final = Pace(confirmations=5, poll_ms=1_000, eta_s=12)
_CELO: Final = Pace(confirmations=8, poll_ms=1_000, eta_s=10)
_ARBITRUM: Final = Pace(confirmations=20, poll_ms=500, eta_s=6)
# Solana is followed by its finalized slots: 31 blocks of 0.4 s on top.
_SOLANA: Final = Pace(confirmations=1, poll_ms=1_000, eta_s=15)

# somebody is always there to be written into a block; where money is worth nothing, not always
_STALLED_S: Final = 300

_USD_COIN: Final = ("USD Coin", "2")


def _usdc(address: str, domain: tuple[str, str] | None = _USD_COIN) -> Token:
    return Token("USDC", "USD Coin", address, 6, "USD", "eip3009", domain)


def _usdt(address: str, *, approve_from_zero: bool = False) -> Token:
    return Token(
        "USDT", "Tether USD", address, 6, "USD", "permit2", approve_from_zero=approve_from_zero
    )


def _pyusd(address: str, domain: tuple[str, str] | None) -> Token:
    return Token("PYUSD", "PayPal USD", address, 6, "USD", "eip3009", domain)


def _eurc(address: str) -> Token:
    return Token("EURC", "Euro Coin", address, 6, "EUR", "eip3009")


def _weth(address: str) -> Token:
    return Token("WETH", "Wrapped Ether", address, 18, None, "permit2")


def _spl(symbol: str, name: str, mint: str, peg: str) -> Token:
    return Token(symbol, name, mint, 6, peg, "solana")


_EURAU: Final = Token(
    "EURAU", "AllUnity EUR", "0x4933A85b5b5466Fbaf179F72D3DE273c287EC2c2", None, "EUR", "permit2"
)
_AUSD: Final = Token(
    "AUSD", "Agora Dollar", "0x00000000eFE302BEAA2b3e6e1b18d08D69a9012a", None, "USD", "permit2"
)

NETWORKS: Final[tuple[Network, ...]] = (
    Network(
        id="eip155:1",
        name="Ethereum",
        live=True,
        coin=_ETHER,
        pace=_ETHEREUM,
        tokens=(
            _usdc("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
            _usdt("0xdAC17F958D2ee523a2206206994597C13D831ec7", approve_from_zero=True),
            _pyusd("0x6c3ea9036406852006290770BEdFcAbA0e23A0e8", ("PayPal USD", "1")),
            _eurc("0x1aBaEA1f7C830bD89Acc67eC4af516284b1bC33c"),
            _EURAU,
            _AUSD,
            Token(
                symbol="USDG",
                name="Global Dollar",
                address="0xe343167631d89B6Ffc58B88d6b7fB0228795491D",
                decimals=None,
                peg="USD",
                method="permit2",
            ),
            _weth("0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"),
        ),
    ),
    Network(
        id="eip155:10",
        name="Optimism",
        live=True,
        coin=_ETHER,
        pace=_OP_CHAIN,
        tokens=(
            _usdc("0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", None),
            _EURAU,
            _weth("0x4200000000000000000000000000000000000006"),
        ),
    ),
    Network(
        id="eip155:56",
        name="BSC",
        live=True,
        coin=Coin("BNB", "BNB", 714),
        pace=_BSC,
        tokens=(
            Token(
                symbol="USDC",
                name="Binance-Peg USD Coin",
                address="0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d",
                decimals=18,
                peg="USD",
                method="permit2",
            ),
            Token(
                symbol="USDT",
                name="Binance-Peg BSC-USD",
                address="0x55d398326f99059fF775485246999027B3197955",
                decimals=18,
                peg="USD",
                method="permit2",
            ),
            _AUSD,
        ),
    ),
    Network(
        id="eip155:137",
        name="Polygon",
        live=True,
        coin=Coin("POL", "POL", 966),
        pace=_POLYGON,
        tokens=(
            _usdc("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"),
            _usdt("0xc2132D05D31c914a87C6611C10748AEb04B58e8F"),
            Token(
                symbol="EURe",
                name="Monerium EURe",
                address="0xE0aEa583266584DafBB3f9C3211d5588c73fEa8d",
                decimals=None,
                peg="EUR",
                method="permit2",
            ),
            _EURAU,
            Token(
                symbol="WPOL",
                name="Wrapped POL",
                address="0x0d500B1d8E8eF31E21C99d1Db9A6444d3ADf1270",
                decimals=18,
                peg=None,
                method="permit2",
            ),
        ),
    ),
    Network(
        id="eip155:143",
        name="Monad",
        live=True,
        # no number of its own is known here; its accounts are Ethereum's
        coin=Coin("Monad", "MON", 60),
        pace=_MONAD,
        tokens=(_usdc("0x754704Bc059F8C67012fEd69BC8A327a5aafb603"),),
    ),
    Network(
        id="eip155:8453",
        name="Base",
        live=True,
        coin=_ETHER,
        pace=_OP_CHAIN,
        tokens=(
            _usdc("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
            _eurc("0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"),
            _EURAU,
            _AUSD,
            _weth("0x4200000000000000000000000000000000000006"),
        ),
    ),
    Network(
        id="eip155:42161",
        name="Arbitrum",
        live=True,
        coin=_ETHER,
        pace=_ARBITRUM,
        tokens=(
            _usdc("0xaf88d065e77c8cC2239327C5EDb3A432268e5831"),
            _usdt("0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9"),
            _pyusd("0x46850aD61C2B7d64d08c9C754F45254596696984", None),
            _EURAU,
            _AUSD,
            _weth("0x82aF49447D8a07e3bd95BD0d56f35241523fBab1"),
        ),
    ),
    Network(
        id="eip155:42220",
        name="Celo",
        live=True,
        coin=Coin("Celo", "CELO", 52752),
        pace=_CELO,
        tokens=(_usdc("0xcebA9300f2b948710d2653dD7B07f33A8B32118C", None),),
    ),
    Network(
        id="eip155:84532",
        name="Base Sepolia",
        live=False,
        coin=_ETHER,
        pace=_OP_CHAIN,
        tokens=(_usdc("0x036CbD53842c5426634e7929541eC2318f3dCF7e", ("USDC", "2")),),
    ),
    Network(
        id="eip155:421614",
        name="Arbitrum Sepolia",
        live=False,
        coin=_ETHER,
        pace=_ARBITRUM,
        tokens=(_usdc("0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d"),),
    ),
    Network(
        id="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        name="Solana",
        live=True,
        coin=Coin("Solana", "SOL", 501, 9),
        pace=_SOLANA,
        tokens=(
            _spl("USDC", "USD Coin", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "USD"),
            _spl("USDT", "Tether USD", "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB", "USD"),
            _spl("EURC", "Euro Coin", "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr", "EUR"),
        ),
    ),
    Network(
        id="solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
        name="Solana Devnet",
        live=False,
        coin=Coin("Solana", "SOL", 501, 9),
        pace=_SOLANA,
        tokens=(_spl("USDC", "USD Coin", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU", "USD"),),
    ),
)

BY_ID: Final = {one.id: one for one in NETWORKS}


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


def is_test_network(chain_id: str) -> bool:
    """True if the registry knows that a chain's money is worth nothing."""
    known = network(chain_id)
    return known is not None and not known.live


def defaults_of(known: Network) -> dict[str, Any]:
    """The settings of a chain that need not be written down."""
    stalled_after_s = _STALLED_S if known.live else 0
    pace = asdict(known.pace)
    return {"name": known.name, "live": known.live, "stalled_after_s": stalled_after_s, **pace}


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
