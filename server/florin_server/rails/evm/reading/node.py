"""Asking an EVM node, and reading its answers strictly.

A refused or misshapen answer is RailUnavailable: it tells nothing about what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from florin_server.chains.evm.abi import WORD, data_of
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.connection.node import AnyNode, answered
from florin_server.rails.types import RailUnavailable

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_DATA = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
_HASH = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Header:
    """What matters of a block. `base_fee` is in wei, None where the node does not report it."""

    number: int
    hash: str
    parent_hash: str
    time: int
    base_fee: int | None
    transactions: int


class FinalityRule(Protocol):
    """Tells which blocks are final."""

    def final_at(self, head: int) -> int:
        """Return the newest final block for a node whose head is given, -1 if it has none."""


class Node(AnyNode):
    """One chain's node."""

    async def head(self) -> int:
        """The number of the newest block."""
        return quantity(await self.ask("eth_blockNumber"))

    async def final_block(self, finality: FinalityRule) -> int | None:
        """Return the newest final block for this node's head; None while there is none."""
        number = finality.final_at(await self.head())
        return number if number >= 0 else None


def call_to(
    contract: str,
    data: bytes,
    *,
    sender: str | None = None,
    gas: int | None = None,
    block: str = LATEST,
) -> Call:
    """An eth_call."""
    transaction: dict[str, str] = {"to": contract, "data": data_of(data)}
    if sender is not None:
        transaction["from"] = sender
    if gas is not None:
        transaction["gas"] = hex(gas)
    return ("eth_call", (transaction, block))


def quantity(answer: Any) -> int:
    """A number."""
    text = answered(answer)
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        raise RailUnavailable("the node answered something else than a number")
    return int(text, 16)


def optional_quantity(answer: Any) -> int | None:
    """Return a number that no decision needs; None if the node reports none, or something else."""
    try:
        return quantity(answer)
    except RailUnavailable:
        return None


def data(answer: Any) -> bytes:
    """Bytes."""
    text = answered(answer)
    if not isinstance(text, str) or not _DATA.fullmatch(text):
        raise RailUnavailable("the node answered something else than bytes")
    return bytes.fromhex(text[2:])


def uint(answer: Any) -> int:
    """The uint256 that a contract returned; no code at its address answers nothing at all."""
    word = data(answer)
    if len(word) != WORD:
        raise RailUnavailable("the contract answered something else than a number")
    return int.from_bytes(word, "big")


def hash_text(value: Any) -> str:
    """A 32-byte hash, lower-case."""
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise RailUnavailable("the node answered something else than a hash")
    return value.lower()


def address_text(value: Any) -> str:
    """An address, lower-case."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise RailUnavailable("the node answered something else than an address")
    return value.lower()


def record(answer: Any) -> Mapping[str, Any] | None:
    """An object, or None where the node has none."""
    value = answered(answer)
    if value is None or isinstance(value, dict):
        return value
    raise RailUnavailable("the node answered something else than an object")


def records(answer: Any) -> list[Mapping[str, Any]]:
    """A list of objects."""
    value = answered(answer)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise RailUnavailable("the node answered something else than a list of objects")
    return value


def header(answer: Any) -> Header | None:
    """A block, or None where the node has none."""
    block = record(answer)
    if block is None:
        return None
    transactions = block.get("transactions")
    if not isinstance(transactions, list):
        raise RailUnavailable("the node answered a block without transactions")
    return Header(
        number=quantity(block.get("number")),
        hash=hash_text(block.get("hash")),
        parent_hash=hash_text(block.get("parentHash")),
        time=quantity(block.get("timestamp")),
        base_fee=optional_quantity(block.get("baseFeePerGas")),
        transactions=len(transactions),
    )


def returned(answer: Any) -> bytes | None:
    """What a contract returned; None if it reverted or returned nothing."""
    if isinstance(answer, RpcError):
        if answer.is_revert:
            return None
        raise RailUnavailable(f"the node refused a call: {answer}")
    return data(answer) or None
