"""A search for the transactions in blocks that used an address's nonces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.rails.evm.gas_money import FEE_MANAGER, SET_USER_TOKEN
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.reading.node import (
    EvmNode,
    parse_address,
    parse_hash,
    parse_object,
    parse_objects,
    parse_quantity,
)
from florin_server.rails.evm.sending.transactions import (
    parse_calldata,
    parse_coin_transfer,
    rebuild_transaction,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import RailUnavailable, TreasuryTransaction

TRANSFER: Final = abi.encode_selector("transfer(address,uint256)")


async def find_transfer(
    node: EvmNode, chain: EvmChainSettings, sender: str, nonce: int
) -> TreasuryTransaction | None:
    """Return the transaction of an address with a nonce; None if it cannot be found.

    Most nodes keep the states of some hundred blocks only, and cannot search further back.
    """
    head = parse_quantity(await node.call("eth_blockNumber"))
    try:
        transaction = await find_transaction(node, sender, nonce, head)
    except RailUnavailable:
        return None
    raw = None if transaction is None else rebuild_transaction(transaction, sender)
    if transaction is None or raw is None:
        return None
    tx_hash = parse_hash(transaction.get("hash"))
    to, value = parse_coin_transfer(raw)
    calldata = parse_calldata(raw)
    if value:
        coin = f"{chain.caip2}/slip44:{chain.native_slip44}"
        return TreasuryTransaction(tx_hash, raw, coin, f"{chain.caip2}:{to}", value)
    if len(calldata) == len(TRANSFER) + 64 and calldata.startswith(TRANSFER):
        account = "0x" + calldata[-52:-32].hex()
        return TreasuryTransaction(
            tx_hash,
            raw,
            f"{chain.caip2}/erc20:{to}",
            f"{chain.caip2}:{account}",
            int.from_bytes(calldata[-32:], "big"),
        )
    chooses = to == FEE_MANAGER and calldata.startswith(SET_USER_TOKEN)
    return TreasuryTransaction(tx_hash, raw, is_setup=chooses or to == DEPLOYER)


async def find_transaction(
    node: EvmNode, sender: str, nonce: int, last: int
) -> Mapping[str, Any] | None:
    """Return the transaction that used a nonce up to a block, as a node reports it."""
    if await _count_transactions(node, sender, last) <= nonce:
        return None
    number = await _find_block_of_nonce(node, sender, nonce, last)
    block = parse_object(await node.call("eth_getBlockByNumber", hex(number), True))
    for transaction in parse_objects(block.get("transactions") if block else None):
        if (
            parse_address(transaction.get("from")) == sender
            and parse_quantity(transaction.get("nonce")) == nonce
        ):
            return transaction
    return None


async def _find_block_of_nonce(node: EvmNode, sender: str, nonce: int, newest: int) -> int:
    """Return the block in which a nonce was used, searching backwards from the newest."""
    step, last = 1, newest
    while (first := max(0, newest - step)) and await _count_transactions(
        node, sender, first
    ) > nonce:
        step, last = 2 * step, first
    while last - first > 1:
        middle = (first + last) // 2
        if await _count_transactions(node, sender, middle) > nonce:
            last = middle
        else:
            first = middle
    return last


async def _count_transactions(node: EvmNode, sender: str, block: int) -> int:
    """Return how many transactions an address has sent up to a block."""
    return parse_quantity(await node.call("eth_getTransactionCount", sender, hex(block)))
