"""The genesis of every embedded EVM chain, and its publicly known keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from florin_server.rails.evm.setup.bytecode import (
    ContractBytecode,
    load_bytecode,
    read_artifacts,
)
from florin_server.rails.networks.embedded import EMBEDDED_EVM, EmbeddedToken

_ARTIFACTS = Path(__file__).parent / "contracts" / "artifacts.json"
_FORMER_SETTLERS = Path(__file__).with_name("former_settlers.json")


@dataclass(frozen=True, slots=True)
class EvmDevnet:
    """The addresses on an embedded chain; equal on each, whatever its chain id.

    `opener` and `wallet_factory` are for contract accounts that pay before they exist. `forwarder`
    gives payments addresses, and `x402_proxy` moves what payers sign by Permit2 for x402; stored
    chains of earlier releases do not have these two. `faucet` owns the tokens and more native coin
    than any test needs. Its key is published here: never use it on another chain.
    """

    chain_id: int
    name: str
    settler: str
    token: EmbeddedToken
    euro: EmbeddedToken
    permit2: str
    x402_proxy: str
    opener: str
    wallet_factory: str
    forwarder: str
    faucet: str
    faucet_key: bytes

    @property
    def tokens(self) -> tuple[EmbeddedToken, ...]:
        """Return all tokens that the faucet gives."""
        return (self.token, self.euro)


_DOLLAR, _EURO = EMBEDDED_EVM.tokens

DEVNET: Final = EvmDevnet(
    chain_id=int(EMBEDDED_EVM.chain_id.removeprefix("eip155:")),
    name=EMBEDDED_EVM.name,
    settler="0x7296bceede3d2a3abfeaac694c53850da72d39c5",
    token=_DOLLAR,
    euro=_EURO,
    permit2="0x000000000022d473030f116ddee9f6b43ac78ba3",
    x402_proxy="0x402085c248eea27d92e8b30b2c58ed07f9e20001",
    opener="0x1de0e03487dc9911f6942e1a96c4637d7aaa6985",
    wallet_factory="0x19ecb27f8864ff0b1ef8b7e966cc4e93f9e4117b",
    forwarder=EMBEDDED_EVM.forwarder,
    faucet="0xa3be5770fc10f230c806a80d5ba227738204adf2",
    # the Keccak hash of "florin devnet faucet"
    faucet_key=bytes.fromhex("a9fc3c17c2e8d3e8d89194d687f275196f6eaf206b4bdfe6eae990ef0038a4d7"),
)

FAUCET_WEI: Final = 10**27


def load_artifact(name: str) -> ContractBytecode:
    """Return the compiled contract of that name: one of the test contracts, or one of Florin's."""
    return read_artifacts(_ARTIFACTS).get(name) or load_bytecode(name)


def load_former_settlers() -> list[bytes]:
    """Return the code that created the settlement contract of stored chains of earlier releases."""
    stored = json.loads(_FORMER_SETTLERS.read_text())
    return [bytes.fromhex(code[2:]) for code in stored.values()]
