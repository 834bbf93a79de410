"""Tokens that exist on several public networks.

A value that was not verified is None and is read from the chain.
"""

from __future__ import annotations

from typing import Final

from florin_server.rails.networks.network import NetworkToken

USD_COIN: Final = ("USD Coin", "2")
# the signing domain of Circle's newer contracts
USDC_NAME: Final = ("USDC", "2")


def usdc(address: str, domain: tuple[str, str] | None = None) -> NetworkToken:
    """Return Circle's USDC; without a `domain` it is read from the chain."""
    return NetworkToken("USDC", "USD Coin", address, 6, "USD", "eip3009", domain)


def eurc(address: str) -> NetworkToken:
    """Return Circle's EURC; its domain is read from the chain."""
    return NetworkToken("EURC", "Euro Coin", address, 6, "EUR", "eip3009")


def usdt(address: str, *, approve_from_zero: bool = False) -> NetworkToken:
    """Return Tether's USDT where Tether itself issued it."""
    return NetworkToken(
        "USDT", "Tether USD", address, 6, "USD", "permit2", approve_from_zero=approve_from_zero
    )


def usdt0(address: str) -> NetworkToken:
    """Return USDT0: USDT that is locked on Ethereum and issued elsewhere (LayerZero's OFT)."""
    return NetworkToken("USDT0", "USDT0", address, 6, "USD", "permit2")


def tip20(symbol: str, name: str, address: str, peg: str) -> NetworkToken:
    """Return a token of Tempo's own standard, which has six decimals and no EIP-3009."""
    return NetworkToken(symbol, name, address, 6, peg, "permit2")


def pyusd(address: str, domain: tuple[str, str] | None) -> NetworkToken:
    """Return PayPal USD."""
    return NetworkToken("PYUSD", "PayPal USD", address, 6, "USD", "eip3009", domain)


def weth(address: str) -> NetworkToken:
    """Return wrapped Ether, which has a rate."""
    return NetworkToken("WETH", "Wrapped Ether", address, 18, None, "permit2")


def spl(symbol: str, name: str, mint: str, peg: str) -> NetworkToken:
    """Return a token of Solana with six decimals."""
    return NetworkToken(symbol, name, mint, 6, peg, "solana")


EURAU: Final = NetworkToken(
    "EURAU", "AllUnity EUR", "0x4933A85b5b5466Fbaf179F72D3DE273c287EC2c2", None, "EUR", "permit2"
)
AUSD: Final = NetworkToken(
    "AUSD", "Agora Dollar", "0x00000000eFE302BEAA2b3e6e1b18d08D69a9012a", None, "USD", "permit2"
)
