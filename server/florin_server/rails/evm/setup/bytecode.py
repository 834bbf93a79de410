"""Compiled contracts that rails use on any chain; `make contracts` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson

_FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True)
class ContractBytecode:
    """The code that creates a contract, and its deployed code."""

    init: bytes
    runtime: bytes


@cache
def load_bytecode(name: str) -> ContractBytecode:
    """Return the contract of that name."""
    contract = orjson.loads(_FILE.read_bytes())[name]
    return ContractBytecode(
        bytes.fromhex(contract["bytecode"][2:]), bytes.fromhex(contract["runtime"][2:])
    )
