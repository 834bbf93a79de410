"""Compiled contracts that rails use on any chain; `make contracts` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson

_FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True, slots=True)
class Bytecode:
    """The code that creates a contract, and the code that stays there."""

    init: bytes
    runtime: bytes


@cache
def bytecode(name: str) -> Bytecode:
    """The contract of that name."""
    made = orjson.loads(_FILE.read_bytes())[name]
    return Bytecode(bytes.fromhex(made["bytecode"][2:]), bytes.fromhex(made["runtime"][2:]))
