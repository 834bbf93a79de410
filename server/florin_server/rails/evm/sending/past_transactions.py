"""Finds the transactions in blocks that used the nonces of an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from florin_server.chains.evm import abi
from florin_server.rails.evm.gas_money import FEE_MANAGER, SET_USER_TOKEN
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.reading.node import (
    Node,
    address_text,
    hash_text,
    quantity,
    record,
    records,
)
from florin_server.rails.evm.sending.transactions import coin_of, data_of, rebuild
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import RailUnavailable, SentTransfer

TRANSFER: Final = abi.selector("transfer(address,uint256)")


async def find_transfer(
    node: Node, chain: EvmChain, sender: str, nonce: int
) -> SentTransfer | None:
    """Return the transaction in a block with a nonce of an address; None if none can be found.

    Most nodes keep the states of some hundred blocks only, and cannot look further back.
    """
    head = quantity(await node.ask("eth_blockNumber"))
    try:
        found = await find_taker(node, sender, nonce, head)
    except RailUnavailable:
        return None
    raw = None if found is None else rebuild(found, sender)
    if found is None or raw is None:
        return None
    tx_hash = hash_text(found.get("hash"))
    to, value = coin_of(raw)
    calldata = data_of(raw)
    if value:
        coin = f"{chain.caip2}/slip44:{chain.native_slip44}"
        return SentTransfer(tx_hash, raw, coin, f"{chain.caip2}:{to}", value)
    if len(calldata) == len(TRANSFER) + 64 and calldata.startswith(TRANSFER):
        account = "0x" + calldata[-52:-32].hex()
        return SentTransfer(
            tx_hash,
            raw,
            f"{chain.caip2}/erc20:{to}",
            f"{chain.caip2}:{account}",
            int.from_bytes(calldata[-32:], "big"),
        )
    chooses = to == FEE_MANAGER and calldata.startswith(SET_USER_TOKEN)
    return SentTransfer(tx_hash, raw, is_setup=chooses or to == DEPLOYER)


async def find_taker(node: Node, sender: str, nonce: int, last: int) -> Mapping[str, Any] | None:
    """Return the transaction that used a nonce up to a block, as a node reports it."""
    if await _count(node, sender, last) <= nonce:
        return None
    number = await _used_in(node, sender, nonce, last)
    block = record(await node.ask("eth_getBlockByNumber", hex(number), True))
    for one in records(block.get("transactions") if block else None):
        if address_text(one.get("from")) == sender and quantity(one.get("nonce")) == nonce:
            return one
    return None


async def _used_in(node: Node, sender: str, nonce: int, newest: int) -> int:
    """Return the block in which a nonce was used, looking from the newest one back."""
    step, last = 1, newest
    while (first := max(0, newest - step)) and await _count(node, sender, first) > nonce:
        step, last = 2 * step, first
    while last - first > 1:
        middle = (first + last) // 2
        if await _count(node, sender, middle) > nonce:
            last = middle
        else:
            first = middle
    return last


async def _count(node: Node, sender: str, block: int) -> int:
    """Return how many transactions an address has sent up to a block."""
    return quantity(await node.ask("eth_getTransactionCount", sender, hex(block)))
