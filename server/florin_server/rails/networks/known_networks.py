"""Public networks and tokens that Florin knows, with their sources and last check.

An address is listed if two independent public sources have it, or its issuer does. A value that was
not verified is None and is read from the chain.
"""

from __future__ import annotations

from typing import Final

from florin_server.rails.networks import paces
from florin_server.rails.networks.network import (
    NetworkCoin,
    NetworkPace,
    NetworkToken,
    PublicNetwork,
    UnsupportedNetwork,
)
from florin_server.rails.networks.tokens import (
    AUSD,
    EURAU,
    USD_COIN,
    USDC_NAME,
    eurc,
    pyusd,
    spl,
    tip20,
    usdc,
    usdt,
    usdt0,
    weth,
)

_ETHER: Final = NetworkCoin("Ether", "ETH", 60)
_SOL: Final = NetworkCoin("Solana", "SOL", 501, 9)

# Circle's own list of chains (@circle-fin/bridge-kit 1.15.1), compared with that of viem 2.57.20:
# chain ids, coins, and the addresses of USDC and EURC
_CIRCLE: Final = "Circle's bridge-kit 1.15.1, viem 2.57.20"
_USDT0: Final = "USDT0: public lists of its deployments"
_DOMAIN_SOURCE: Final = "x402's default assets, x402-rs (what USDC signs as)"
_CHECKED_ON: Final = "2026-11-26"
_PATH_USD: Final = "0x20C0000000000000000000000000000000000000"
# four new slots of 250,000 gas, and the other gas of a payment by an account with code
_TEMPO_GAS: Final = 2_000_000
# a block, and so a transaction, has 10,000,000 gas on Sei; one of a second 2,000,000 on HyperEVM
_SEI_GAS: Final = 9_000_000
_HYPER_GAS: Final = 1_900_000


def _build_evm_network(
    chain_number: int,
    name: str,
    pace: NetworkPace,
    source: str,
    *tokens: NetworkToken,
    coin: NetworkCoin = _ETHER,
    live: bool = True,
    gas_max: int | None = None,
) -> PublicNetwork:
    """Return a network of EVM chains that charges for gas in its coin."""
    sources = f"{_CIRCLE}; {source}"
    return PublicNetwork(
        f"eip155:{chain_number}",
        name,
        live,
        coin,
        pace,
        tokens,
        sources,
        _CHECKED_ON,
        gas_max=gas_max,
    )


def _build_tempo_network(
    number: int, name: str, *tokens: NetworkToken, live: bool
) -> PublicNetwork:
    """Return a network of Tempo, where fees are charged in a stablecoin."""
    return PublicNetwork(
        id=f"eip155:{number}",
        name=name,
        live=live,
        coin=None,
        pace=paces.TEMPO,
        tokens=(tip20("pathUSD", "PathUSD", _PATH_USD, "USD"), *tokens),
        source="docs.tempo.xyz (fees, EVM differences, predeployed contracts), TIP-1000, TIP-1010, "
        "tokenlist.tempo.xyz, viem 2.57.20",
        checked_on=_CHECKED_ON,
        fee_token=_PATH_USD,
        payment_gas_max=_TEMPO_GAS,
    )


NETWORKS: Final[tuple[PublicNetwork, ...]] = (
    _build_evm_network(
        1,
        "Ethereum",
        paces.ETHEREUM,
        "blog.ethereum.org, September and October 2026",
        usdc("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", USD_COIN),
        usdt("0xdAC17F958D2ee523a2206206994597C13D831ec7", approve_from_zero=True),
        pyusd("0x6c3ea9036406852006290770BEdFcAbA0e23A0e8", ("PayPal USD", "1")),
        eurc("0x1aBaEA1f7C830bD89Acc67eC4af516284b1bC33c"),
        EURAU,
        AUSD,
        NetworkToken(
            symbol="USDG",
            name="Global Dollar",
            address="0xe343167631d89B6Ffc58B88d6b7fB0228795491D",
            decimals=None,
            peg="USD",
            method="permit2",
        ),
        weth("0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"),
    ),
    _build_evm_network(
        10,
        "Optimism",
        paces.OP_CHAIN,
        f"the chain's documents; {_USDT0}",
        usdc("0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85"),
        usdt0("0x01bFF41798a0BcF287b996046Ca68b395DbC1071"),
        EURAU,
        weth("0x4200000000000000000000000000000000000006"),
    ),
    _build_evm_network(
        50,
        "XDC",
        paces.XDC,
        f"{_DOMAIN_SOURCE}; XDPoSChain pull request 2020 of 30 January 2026 (Cancun)",
        usdc("0xfA2958CB79b0491CC627c1557F441eF849Ca8eb1", USDC_NAME),
        coin=NetworkCoin("XDC", "XDC", 550),
    ),
    PublicNetwork(
        id="eip155:56",
        name="BSC",
        live=True,
        coin=NetworkCoin("BNB", "BNB", 714),
        pace=paces.BSC,
        tokens=(
            NetworkToken(
                symbol="USDC",
                name="Binance-Peg USD Coin",
                address="0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d",
                decimals=18,
                peg="USD",
                method="permit2",
            ),
            NetworkToken(
                symbol="USDT",
                name="Binance-Peg BSC-USD",
                address="0x55d398326f99059fF775485246999027B3197955",
                decimals=18,
                peg="USD",
                method="permit2",
            ),
            AUSD,
        ),
        source="the chain's documents (0.45 s since 14 January 2026)",
        checked_on=_CHECKED_ON,
    ),
    _build_evm_network(
        130,
        "Unichain",
        paces.OP_CHAIN,
        f"viem's definition (OP Stack, 1 s); {_USDT0}",
        usdc("0x078D782b760474a361dDA0AF3839290b0EF57AD6"),
        usdt0("0x9151434b16b9763660705744891fA906F660EcC5"),
    ),
    _build_evm_network(
        137,
        "Polygon",
        paces.POLYGON,
        "the chain's documents",
        usdc("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", USD_COIN),
        usdt("0xc2132D05D31c914a87C6611C10748AEb04B58e8F"),
        NetworkToken(
            symbol="EURe",
            name="Monerium EURe",
            address="0xE0aEa583266584DafBB3f9C3211d5588c73fEa8d",
            decimals=None,
            peg="EUR",
            method="permit2",
        ),
        EURAU,
        NetworkToken(
            symbol="WPOL",
            name="Wrapped POL",
            address="0x0d500B1d8E8eF31E21C99d1Db9A6444d3ADf1270",
            decimals=18,
            peg=None,
            method="permit2",
        ),
        coin=NetworkCoin("POL", "POL", 966),
    ),
    # Monad, Sonic, Sei, HyperEVM, Plasma: no coin number of their own is known, and accounts are
    # Ethereum's
    _build_evm_network(
        143,
        "Monad",
        paces.MONAD,
        "the chain's documents; x402's default assets (what USDC signs as)",
        usdc("0x754704Bc059F8C67012fEd69BC8A327a5aafb603", USDC_NAME),
        coin=NetworkCoin("Monad", "MON", 60),
    ),
    _build_evm_network(
        146,
        "Sonic",
        paces.COMMITTED,
        "docs.soniclabs.com (final in less than a second, no reorganizations)",
        usdc("0x29219dd400f2Bf60E5a23d13Be72B486D4038894"),
        coin=NetworkCoin("Sonic", "S", 60),
    ),
    _build_evm_network(
        480,
        "World Chain",
        paces.OP_CHAIN,
        "viem's definition (OP Stack)",
        usdc("0x79A02482A880bCE3F13e09Da970dC34db4CD24d1"),
    ),
    _build_evm_network(
        999,
        "HyperEVM",
        paces.COMMITTED,
        f"hyperliquid.gitbook.io, HyperEVM and dual-block architecture; {_USDT0}",
        usdc("0xb88339CB7199b77E23DB6E890353E22632Ba630f"),
        usdt0("0xB8CE59FC3717ada4C02eaDF9682A9e934F625ebb"),
        coin=NetworkCoin("HYPE", "HYPE", 60),
        gas_max=_HYPER_GAS,
    ),
    _build_evm_network(
        1329,
        "Sei",
        paces.SEI,
        f"docs.sei.io, finality and differences from Ethereum; {_DOMAIN_SOURCE}; {_USDT0}",
        usdc("0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392", USDC_NAME),
        usdt0("0x9151434b16b9763660705744891fA906F660EcC5"),
        coin=NetworkCoin("Sei", "SEI", 60),
        gas_max=_SEI_GAS,
    ),
    _build_tempo_network(
        4217,
        "Tempo",
        tip20(
            "USDC.e",
            "Bridged USDC (Stargate)",
            "0x20C000000000000000000000b9537d11c60E8b50",
            "USD",
        ),
        tip20("USDT0", "USDT0", "0x20C00000000000000000000014f22CA97301EB73", "USD"),
        tip20(
            "EURC.e",
            "Bridged EURC (Stargate)",
            "0x20c0000000000000000000001621e21F71CF12fb",
            "EUR",
        ),
        live=True,
    ),
    _build_evm_network(
        8453,
        "Base",
        paces.OP_CHAIN,
        "docs.base.org, Denim overview (0.2 s since 5 November 2026)",
        usdc("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", USD_COIN),
        eurc("0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"),
        EURAU,
        AUSD,
        weth("0x4200000000000000000000000000000000000006"),
    ),
    _build_evm_network(
        9745,
        "Plasma",
        paces.COMMITTED,
        f"docs.chainstack.com, Plasma (1 s, PlasmaBFT); {_USDT0}",
        usdc("0x2d661C89D812261039AF9764eceaAee884f5F67F"),
        eurc("0x3EE196E78d4d4248b849B8E1C7F44C5457FAFD2C"),
        usdt0("0xB8CE59FC3717ada4C02eaDF9682A9e934F625ebb"),
        coin=NetworkCoin("Plasma", "XPL", 60),
    ),
    _build_evm_network(
        42161,
        "Arbitrum",
        paces.ARBITRUM,
        "the chain's documents",
        usdc("0xaf88d065e77c8cC2239327C5EDb3A432268e5831", USD_COIN),
        usdt("0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9"),
        pyusd("0x46850aD61C2B7d64d08c9C754F45254596696984", None),
        EURAU,
        AUSD,
        weth("0x82aF49447D8a07e3bd95BD0d56f35241523fBab1"),
    ),
    _build_evm_network(
        42220,
        "Celo",
        paces.CELO,
        f"the chain's documents; {_DOMAIN_SOURCE}",
        usdc("0xcebA9300f2b948710d2653dD7B07f33A8B32118C", USDC_NAME),
        usdt("0x48065fbBE25f71C9282ddf5e1cD6D6A887483D5e"),
        coin=NetworkCoin("Celo", "CELO", 52752),
    ),
    _build_evm_network(
        43114,
        "Avalanche",
        paces.COMMITTED,
        "build.avax.network, ACP-131 (Cancun); THORChain merge request 2325 (no reorganizations); "
        "x402-rs (what USDC signs as)",
        usdc("0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", USD_COIN),
        usdt("0x9702230A8Ea53601f5cD2dc00fDBc13d4dF4A8c7"),
        eurc("0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD"),
        coin=NetworkCoin("Avalanche", "AVAX", 9000),
    ),
    _build_evm_network(
        57073,
        "Ink",
        paces.OP_CHAIN,
        f"viem's definition (OP Stack); {_USDT0}",
        usdc("0x2D270e6886d130D724215A266106e6832161EAEd"),
        usdt0("0x0200C29006150606B650577BBE7B6248F58470c1"),
    ),
    _build_evm_network(
        59144,
        "Linea",
        paces.OP_CHAIN,
        "docs.linea.build, transaction finality (one sequencer, 1 s)",
        usdc("0x176211869cA2b568f2A7D4EE941E073a821EE1ff"),
    ),
    _build_evm_network(
        81224,
        "Codex",
        paces.OP_CHAIN,
        "viem's definition (OP Stack)",
        usdc("0xd996633a415985DBd7D6D12f4A4343E31f5037cf"),
    ),
    _build_tempo_network(
        42431,
        "Tempo Moderato",
        tip20(
            "USDC.e",
            "Bridged USDC (Stargate)",
            "0x20C0000000000000000000009e8d7eB59B783726",
            "USD",
        ),
        live=False,
    ),
    _build_evm_network(
        43113,
        "Avalanche Fuji",
        paces.COMMITTED,
        "build.avax.network, ACP-131; x402-rs (what USDC signs as)",
        usdc("0x5425890298aed601595a70AB815c96711a31Bc65", USD_COIN),
        eurc("0x5E44db7996c682E92a960b65AC713a54AD815c6B"),
        coin=NetworkCoin("Avalanche", "AVAX", 9000),
        live=False,
    ),
    _build_evm_network(
        80002,
        "Polygon Amoy",
        paces.POLYGON,
        "the chain's documents; x402-rs (what USDC signs as)",
        usdc("0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582", USDC_NAME),
        coin=NetworkCoin("POL", "POL", 966),
        live=False,
    ),
    _build_evm_network(
        84532,
        "Base Sepolia",
        paces.OP_CHAIN,
        "docs.base.org, Denim overview (0.2 s since 21 October 2026)",
        usdc("0x036CbD53842c5426634e7929541eC2318f3dCF7e", USDC_NAME),
        eurc("0x808456652fdb597867f38412077A9182bf77359F"),
        live=False,
    ),
    _build_evm_network(
        421614,
        "Arbitrum Sepolia",
        paces.ARBITRUM,
        "the chain's documents",
        usdc("0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", USD_COIN),
        live=False,
    ),
    _build_evm_network(
        11_155_111,
        "Ethereum Sepolia",
        paces.ETHEREUM,
        "blog.ethereum.org, Glamsterdam since 6 October 2026",
        usdc("0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"),
        eurc("0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4"),
        live=False,
    ),
    _build_evm_network(
        11_155_420,
        "OP Sepolia",
        paces.OP_CHAIN,
        "the chain's documents",
        usdc("0x5fd84259d66Cd46123540766Be93DFE6D43130D7"),
        live=False,
    ),
    PublicNetwork(
        id="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        name="Solana",
        live=True,
        coin=_SOL,
        pace=paces.SOLANA,
        tokens=(
            spl("USDC", "USD Coin", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "USD"),
            spl("USDT", "Tether USD", "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB", "USD"),
            spl("EURC", "Euro Coin", "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr", "EUR"),
        ),
        source=f"{_CIRCLE}; solana.com, finality and upgrades",
        checked_on=_CHECKED_ON,
    ),
    PublicNetwork(
        id="solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
        name="Solana Devnet",
        live=False,
        coin=_SOL,
        pace=paces.SOLANA,
        tokens=(spl("USDC", "USD Coin", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU", "USD"),),
        source=f"{_CIRCLE}; solana.com, finality and upgrades",
        checked_on=_CHECKED_ON,
    ),
)

_SHARED_BALANCE_REASON: Final = (
    "charges fees in the balance that a token shows, in 18 decimals of which the token shows "
    "six: the books of a wallet could not be compared with its chain"
)
_ZKSYNC_REASON: Final = (
    "runs another virtual machine and has Permit2 at another address: the settlement contract "
    "accepts no payments there"
)
_ARC: Final = "docs.arc.network, EVM compatibility; Circle's bridge-kit 1.15.1"
_STABLE: Final = "viem 2.57.20; x402's default assets"
_ZKSYNC: Final = "docs.zksync.io, EVM interpreter; 1inch solidity-utils 174 (Permit2)"

UNSUPPORTED: Final[tuple[UnsupportedNetwork, ...]] = (
    UnsupportedNetwork("eip155:300", "ZKsync Era Sepolia", _ZKSYNC_REASON, _ZKSYNC, _CHECKED_ON),
    UnsupportedNetwork("eip155:324", "ZKsync Era", _ZKSYNC_REASON, _ZKSYNC, _CHECKED_ON),
    UnsupportedNetwork("eip155:988", "Stable", _SHARED_BALANCE_REASON, _STABLE, _CHECKED_ON),
    UnsupportedNetwork("eip155:5042", "Arc", _SHARED_BALANCE_REASON, _ARC, _CHECKED_ON),
    UnsupportedNetwork("eip155:5042002", "Arc Testnet", _SHARED_BALANCE_REASON, _ARC, _CHECKED_ON),
)
