"""The genesis of every embedded EVM chain, and its publicly known keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

_ARTIFACTS = Path(__file__).parent / "contracts" / "artifacts.json"


@dataclass(frozen=True, slots=True)
class EvmDevToken:
    """A token of the embedded chain; `name` and `version` are also its EIP-712 domain's.

    A token without signed transfers has no version, and is paid through Permit2.
    """

    address: str  # lower-case
    name: str
    symbol: str
    decimals: int
    version: str | None
    peg: str  # the ISO 4217 currency that it represents


@dataclass(frozen=True, slots=True)
class EvmDevnet:
    """The addresses on an embedded chain; equal on each, whatever its chain id.

    `opener` and `wallet_factory` are for contract accounts that pay before they exist. `faucet`
    owns the tokens and more native coin than any test needs. Its key is published here: never use
    it on another chain.
    """

    chain_id: int
    name: str
    settler: str
    token: EvmDevToken
    euro: EvmDevToken
    permit2: str
    opener: str
    wallet_factory: str
    faucet: str
    faucet_key: bytes

    @property
    def tokens(self) -> tuple[EvmDevToken, ...]:
        """Return all tokens that the faucet gives."""
        return (self.token, self.euro)


DEVNET: Final = EvmDevnet(
    chain_id=31337,
    name="Florin Devnet",
    settler="0x7296bceede3d2a3abfeaac694c53850da72d39c5",
    token=EvmDevToken(
        address="0x1955e4e690c31eb02b611e8ff9a162f4e3b4c9e9",
        name="Test Dollar",
        symbol="tUSD",
        decimals=6,
        version="2",
        peg="USD",
    ),
    euro=EvmDevToken(
        address="0xfabcc94c1facab78fb2c635cabd1084a9a9aa051",
        name="Test Euro",
        symbol="tEUR",
        decimals=6,
        version=None,
        peg="EUR",
    ),
    permit2="0x000000000022d473030f116ddee9f6b43ac78ba3",
    opener="0x1de0e03487dc9911f6942e1a96c4637d7aaa6985",
    wallet_factory="0x19ecb27f8864ff0b1ef8b7e966cc4e93f9e4117b",
    faucet="0xa3be5770fc10f230c806a80d5ba227738204adf2",
    # the Keccak hash of "florin devnet faucet"
    faucet_key=bytes.fromhex("a9fc3c17c2e8d3e8d89194d687f275196f6eaf206b4bdfe6eae990ef0038a4d7"),
)

FAUCET_WEI: Final = 10**27


@dataclass(frozen=True, slots=True)
class ContractArtifact:
    """A compiled contract: its ABI, its creation code and its deployed code."""

    abi: list[dict[str, Any]]
    bytecode: bytes
    runtime: bytes


@cache
def load_artifact(name: str) -> ContractArtifact:
    """Return the compiled contract of that name."""
    contract = json.loads(_ARTIFACTS.read_text())["contracts"][name]
    return ContractArtifact(
        abi=contract["abi"],
        bytecode=bytes.fromhex(contract["bytecode"][2:]),
        runtime=bytes.fromhex(contract["runtime"][2:]),
    )
