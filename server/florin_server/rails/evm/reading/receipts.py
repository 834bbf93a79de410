"""Receipts of our transactions, parsed; what they lack is never a proof."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from florin_server.rails.evm.gas_money import to_native_units
from florin_server.rails.evm.reading.node import (
    BlockHeader,
    parse_hash,
    parse_objects,
    parse_optional_quantity,
    parse_quantity,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import MinedTransaction, RailUnavailable

_log = logging.getLogger(__name__)


def parse_block_receipts(block: BlockHeader, answer: Any) -> list[Mapping[str, Any]]:
    """Return all receipts of a block; raise RailUnavailable if they do not match the block."""
    if answer is None and block.transaction_count == 0:
        return []
    receipts = parse_objects(answer)
    if len(receipts) != block.transaction_count:
        raise RailUnavailable(
            f"{len(receipts)} receipts for {block.transaction_count} transactions"
        )
    if any(parse_hash(receipt.get("blockHash")) != block.hash for receipt in receipts):
        raise RailUnavailable("receipts of another block")
    return receipts


def parse_transactions(
    receipts: Iterable[Mapping[str, Any]], chain: EvmChainSettings
) -> list[MinedTransaction]:
    """Return the transactions of receipts, without receipts that lack a deciding field.

    Absence proves nothing, so a skipped transaction is read again later.
    """
    mined_transactions = []
    for receipt in receipts:
        try:
            mined_transactions.append(_parse_transaction(receipt, chain))
        except RailUnavailable as problem:
            _log.warning("receipt of %.80r: %s", receipt.get("transactionHash"), problem)
    return mined_transactions


def _parse_transaction(receipt: Mapping[str, Any], chain: EvmChainSettings) -> MinedTransaction:
    gas_used = parse_optional_quantity(receipt.get("gasUsed"))
    return MinedTransaction(
        tx_hash=parse_hash(receipt.get("transactionHash")),
        block_number=parse_quantity(receipt.get("blockNumber")),
        block_hash=parse_hash(receipt.get("blockHash")),
        success=parse_quantity(receipt.get("status")) == 1,
        gas_cost=_parse_gas_cost(receipt, gas_used, chain),
        gas_used=gas_used,
    )


def _parse_gas_cost(
    receipt: Mapping[str, Any], used: int | None, chain: EvmChainSettings
) -> int | None:
    """Return a transaction's cost in units of `native_asset`; None if the node lacks it.

    A node that reports another fee token does not report this cost either.
    """
    price = parse_optional_quantity(receipt.get("effectiveGasPrice"))
    if used is None or price is None:
        return None
    charged = receipt.get("feeToken")
    if chain.fee_token and isinstance(charged, str) and charged.lower() != chain.fee_token:
        return None
    # rollups also charge for posting the data
    return to_native_units(
        chain, used * price + (parse_optional_quantity(receipt.get("l1Fee")) or 0)
    )
