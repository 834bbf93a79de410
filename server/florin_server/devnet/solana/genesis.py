"""The genesis of every embedded Solana chain, and its publicly known key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_REFERENCE_MAX: Final = 32  # the part of a genesis hash that CAIP-2 uses


@dataclass(frozen=True, slots=True)
class DevMint:
    """A token of the embedded chain."""

    address: str
    program: str
    name: str
    symbol: str
    decimals: int
    peg: str  # the ISO 4217 currency that it represents


@dataclass(frozen=True, slots=True)
class SolanaDevnet:
    """The addresses on an embedded chain.

    `faucet` mints the tokens and has more coin than any test needs. Its key is published here:
    never use it on another chain.
    """

    genesis_hash: str
    name: str
    tokens: tuple[DevMint, ...]
    faucet: str
    faucet_seed: bytes

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id."""
        return f"solana:{self.genesis_hash[:_REFERENCE_MAX]}"


# hashes and keys are SHA-256 of "florin solana devnet" and the words after it
SOLANA_DEVNET: Final = SolanaDevnet(
    genesis_hash="FXEDJZXidWKiEDdE8MEdyteVkSbXE8BS3x2gvjd1RE1G",
    name="Florin Solana Devnet",
    tokens=(
        DevMint(
            address="7sp24Xn6KezqJBT7rMxVf6etA4sz1CaB9wkJDe6GFkUT",  # "test dollar"
            program="TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
            name="Test Dollar",
            symbol="tUSD",
            decimals=6,
            peg="USD",
        ),
        DevMint(
            address="97eEKkEyGvqwqXBqY4SfTrvB4GqFAQAfD7M8p13S4dkR",  # "test dollar 2022"
            program="TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
            name="Test Dollar 2022",
            symbol="tUSD22",
            decimals=6,
            peg="USD",
        ),
    ),
    faucet="9FT9gSof4eA1deGT6AwzcbVjrdWY63udruU6RJ1R9xgj",  # "faucet"
    faucet_seed=bytes.fromhex("146e5c8653fc0de3a864e261ef97bb73b381698951f9c82730ee3666a8be7ab9"),
)

FAUCET_LAMPORTS: Final = 10**17
