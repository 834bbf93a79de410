"""The test chains that a sandbox embeds, as anyone sees them: names and tokens, but no keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class EmbeddedToken:
    """A token of an embedded chain; `peg` is the ISO 4217 currency that it represents.

    On the EVM chain `address` is lower-case, and `name` and `version` are also its EIP-712
    domain's; a token without signed transfers has no version, and is paid through Permit2. On
    Solana `program` is the token program.
    """

    address: str
    name: str
    symbol: str
    decimals: int
    peg: str
    version: str | None = None
    program: str = ""


@dataclass(frozen=True, slots=True)
class EmbeddedNetwork:
    """An embedded chain: its CAIP-2 id, its name, its coin's CAIP-19 reference, and its tokens.

    `forwarder` is the contract that gives payments addresses; empty without one.
    """

    chain_id: str
    name: str
    coin: str
    tokens: tuple[EmbeddedToken, ...]
    forwarder: str = ""

    @property
    def coin_id(self) -> str:
        """Return the CAIP-19 id of the coin."""
        return f"{self.chain_id}/{self.coin}"


EMBEDDED_EVM: Final = EmbeddedNetwork(
    chain_id="eip155:31337",
    name="Florin Devnet",
    coin="slip44:60",
    tokens=(
        EmbeddedToken(
            address="0x1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9",
            name="Test Dollar",
            symbol="tUSD",
            decimals=6,
            peg="USD",
            version="2",
        ),
        EmbeddedToken(
            address="0xfabcc94c1facab78fb2c635cabd1084a9a9aa051",
            name="Test Euro",
            symbol="tEUR",
            decimals=6,
            peg="EUR",
        ),
    ),
    forwarder="0xcd4e236875195a662c385605fb5d81d494e421a6",
)
# addresses are SHA-256 of "florin solana devnet" and the words after them
EMBEDDED_SOLANA: Final = EmbeddedNetwork(
    chain_id="solana:FXEDJZXidWKiEDdE8MEdyteVkSbXE8BS",
    name="Florin Solana Devnet",
    coin="slip44:501",
    tokens=(
        EmbeddedToken(
            address="7sp24Xn6KezqJBT7rMxVf6etA4sz1CaB9wkJDe6GFkUT",  # "test dollar"
            name="Test Dollar",
            symbol="tUSD",
            decimals=6,
            peg="USD",
            program="TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        ),
        EmbeddedToken(
            address="97eEKkEyGvqwqXBqY4SfTrvB4GqFAQAfD7M8p13S4dkR",  # "test dollar 2022"
            name="Test Dollar 2022",
            symbol="tUSD22",
            decimals=6,
            peg="USD",
            program="TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
        ),
    ),
)
EMBEDDED_NETWORKS: Final = (EMBEDDED_EVM, EMBEDDED_SOLANA)
