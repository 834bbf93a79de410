"""The genesis of every embedded Solana chain, and its publicly known key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from florin_server.rails.networks.embedded import EMBEDDED_SOLANA, EmbeddedToken


@dataclass(frozen=True, slots=True)
class SolanaDevnet:
    """The addresses on an embedded chain; `chain_id` is its CAIP-2 id.

    `faucet` mints the tokens and has more coin than any test needs. Its key is published here:
    never use it on another chain.
    """

    chain_id: str
    genesis_hash: str
    name: str
    tokens: tuple[EmbeddedToken, ...]
    faucet: str
    faucet_seed: bytes


# hashes and keys are SHA-256 of "florin solana devnet" and the words after it
SOLANA_DEVNET: Final = SolanaDevnet(
    chain_id=EMBEDDED_SOLANA.chain_id,
    # CAIP-2 uses its first 32 characters
    genesis_hash="FXEDJZXidWKiEDdE8MEdyteVkSbXE8BS3x2gvjd1RE1G",
    name=EMBEDDED_SOLANA.name,
    tokens=EMBEDDED_SOLANA.tokens,
    faucet="9FT9gSof4eA1deGT6AwzcbVjrdWY63udruU6RJ1R9xgj",  # "faucet"
    faucet_seed=bytes.fromhex("146e5c8653fc0de3a864e261ef97bb73b381698951f9c82730ee3666a8be7ab9"),
)

FAUCET_LAMPORTS: Final = 10**17
