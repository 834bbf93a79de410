"""Compiled contracts that rails use on any chain; `make contracts` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson

_FILE = Path(__file__).with_name("artifacts.json")


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
