"""Compiled contracts that rails use on any chain; `make contracts` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import orjson
from eth_hash.auto import keccak

_FILE = Path(__file__).with_name("artifacts.json")
# Keccak hashes of its deployed code: of 0.3.0 and of builds of 0.4.0
_FORMER_SETTLERS: Final = frozenset(
    {"a4de7ab57b6fcdb6f5b1ce8c179a22a139e515e4985f429cc68474493a40b925"}
)


@dataclass(frozen=True, slots=True)
class ContractBytecode:
    """The code that creates a contract, and its deployed code."""

    init: bytes
    runtime: bytes


@cache
def read_artifacts(path: Path) -> Mapping[str, ContractBytecode]:
    """Return the contracts of a file that `contracts/build.mjs` wrote, by name."""
    return {
        name: ContractBytecode(
            bytes.fromhex(contract["bytecode"][2:]), bytes.fromhex(contract["runtime"][2:])
        )
        for name, contract in orjson.loads(path.read_bytes())["contracts"].items()
    }


def load_bytecode(name: str) -> ContractBytecode:
    """Return the contract of that name."""
    return read_artifacts(_FILE)[name]


def is_former_settler(runtime: bytes) -> bool:
    """Return True for the deployed code of the settlement contract of an earlier release."""
    return keccak(runtime).hex() in _FORMER_SETTLERS
