"""Calls to an EVM node, and strict parsing of its answers.

A refused or malformed answer raises RailUnavailable: it proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from florin_server.domain.chains.evm.abi import WORD, to_hex
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.connection.node import ChainNode, require_result
from florin_server.rails.types import RailUnavailable

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}", re.ASCII)
_DATA = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)
_HASH = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """The relevant fields of a block; `base_fee` is in wei, None if the node does not report it."""

    number: int
    hash: str
    parent_hash: str
    time: int
    base_fee: int | None
    transaction_count: int


class FinalityRule(Protocol):
    """A rule that decides which blocks are final."""

    def get_final_block(self, head: int) -> int:
        """Return the newest final block for a given head; -1 if no block is final."""


class EvmNode(ChainNode):
    """The node of one EVM chain."""

    async def get_head(self) -> int:
        """Return the number of the newest block."""
        return parse_quantity(await self.call("eth_blockNumber"))

    async def find_final_block(self, finality: FinalityRule) -> int | None:
        """Return the newest final block for this node's head; None while no block is final."""
        number = finality.get_final_block(await self.get_head())
        return number if number >= 0 else None


def build_call(
    contract: str,
    data: bytes,
    *,
    sender: str | None = None,
    gas: int | None = None,
    block: str = LATEST,
) -> RpcCall:
    """Build an eth_call."""
    transaction: dict[str, str] = {"to": contract, "data": to_hex(data)}
    if sender is not None:
        transaction["from"] = sender
    if gas is not None:
        transaction["gas"] = hex(gas)
    return ("eth_call", (transaction, block))


def parse_quantity(answer: Any) -> int:
    """Parse a number."""
    text = require_result(answer)
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        raise RailUnavailable("the node returned something other than a number")
    return int(text, 16)


def parse_optional_quantity(answer: Any) -> int | None:
    """Return a number that no decision needs; None if it is missing or malformed."""
    try:
        return parse_quantity(answer)
    except RailUnavailable:
        return None


def parse_data(answer: Any) -> bytes:
    """Parse bytes."""
    text = require_result(answer)
    if not isinstance(text, str) or not _DATA.fullmatch(text):
        raise RailUnavailable("the node returned something other than bytes")
    return bytes.fromhex(text[2:])


def parse_uint(answer: Any) -> int:
    """Parse the uint256 that a contract returned; raise RailUnavailable if it is not one word."""
    word = parse_data(answer)
    if len(word) != WORD:
        raise RailUnavailable("the contract returned something other than a number")
    return int.from_bytes(word, "big")


def parse_hash(value: Any) -> str:
    """Parse a 32-byte hash; return it in lower case."""
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise RailUnavailable("the node returned something other than a hash")
    return value.lower()


def parse_address(value: Any) -> str:
    """Parse an address; return it in lower case."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise RailUnavailable("the node returned something other than an address")
    return value.lower()


def parse_object(answer: Any) -> Mapping[str, Any] | None:
    """Parse an object; return None if the node has none."""
    value = require_result(answer)
    if value is None or isinstance(value, dict):
        return value
    raise RailUnavailable("the node returned something other than an object")


def parse_objects(answer: Any) -> list[Mapping[str, Any]]:
    """Parse a list of objects."""
    value = require_result(answer)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RailUnavailable("the node returned something other than a list of objects")
    return value


def parse_header(answer: Any) -> BlockHeader | None:
    """Parse a block; return None if the node does not have it."""
    block = parse_object(answer)
    if block is None:
        return None
    transactions = block.get("transactions")
    if not isinstance(transactions, list):
        raise RailUnavailable("the node returned a block without transactions")
    return BlockHeader(
        number=parse_quantity(block.get("number")),
        hash=parse_hash(block.get("hash")),
        parent_hash=parse_hash(block.get("parentHash")),
        time=parse_quantity(block.get("timestamp")),
        base_fee=parse_optional_quantity(block.get("baseFeePerGas")),
        transaction_count=len(transactions),
    )


def parse_returned(answer: Any) -> bytes | None:
    """Return what a contract returned; None if it reverted or returned nothing."""
    if isinstance(answer, RpcError):
        if answer.is_revert:
            return None
        raise RailUnavailable(f"the node refused a call: {answer}")
    return parse_data(answer) or None
