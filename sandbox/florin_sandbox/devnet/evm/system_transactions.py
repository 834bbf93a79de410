"""The unsigned, unpaid transactions of type 0x7e with which OP chains begin each block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
import rlp
from eth_hash.auto import keccak

from florin_sandbox.devnet.evm.history import EvmBlock, StoredTransaction
from florin_sandbox.devnet.evm.views import EMPTY_BLOOM, to_hex

SYSTEM_GAS: Final = 46_000  # about the gas of the underlying chain's attributes on OP chains

_SYSTEM_TYPE: Final = 0x7E
_DEPOSITOR: Final = bytes.fromhex("deaddeaddeaddeaddeaddeaddeaddeaddead0001")
_ATTRIBUTES: Final = bytes.fromhex("4200000000000000000000000000000000000015")


def list_system_hashes(count: int, number: int, parent: bytes) -> list[bytes]:
    """Return the hashes of a block's system transactions."""
    return [
        keccak(bytes([_SYSTEM_TYPE]) + rlp.encode(list(_list_fields(number, parent, position))))
        for position in range(count)
    ]


def list_system_transactions(
    count: int, block: EvmBlock, chain_id: int
) -> Iterator[StoredTransaction]:
    """Yield the first transactions of a sealed block; none of them has raw bytes."""
    for position, tx_hash in enumerate(list_system_hashes(count, block.number, block.parent_hash)):
        place = {
            "blockHash": to_hex(block.hash),
            "blockNumber": hex(block.number),
            "transactionIndex": hex(position),
            "from": to_hex(_DEPOSITOR),
            "to": to_hex(_ATTRIBUTES),
            "type": hex(_SYSTEM_TYPE),
        }
        body = _build_body_view(block, chain_id, position, tx_hash)
        receipt = _build_receipt_view(block, position, tx_hash)
        yield StoredTransaction(
            tx_hash, b"", orjson.dumps(place | body), orjson.dumps(place | receipt)
        )


def _list_fields(number: int, parent: bytes, position: int) -> tuple[bytes, ...]:
    """Return source hash, sender, receiver and data, as they enter the hash."""
    source = keccak(parent + number.to_bytes(8, "big") + bytes([position]))
    data = keccak(b"setL1BlockValuesIsthmus()")[:4] + number.to_bytes(32, "big")
    return source, _DEPOSITOR, _ATTRIBUTES, data


def _build_body_view(
    block: EvmBlock, chain_id: int, position: int, tx_hash: bytes
) -> dict[str, Any]:
    source, _, _, data = _list_fields(block.number, block.parent_hash, position)
    zero = "0x0"
    return {
        "hash": to_hex(tx_hash),
        "sourceHash": to_hex(source),
        "mint": zero,
        "value": zero,
        "gas": hex(1_000_000),
        "gasPrice": zero,
        "isSystemTx": False,
        "input": to_hex(data),
        "nonce": hex(block.number),
        "chainId": hex(chain_id),
        "r": zero,
        "s": zero,
        "v": zero,
    }


def _build_receipt_view(block: EvmBlock, position: int, tx_hash: bytes) -> dict[str, Any]:
    return {
        "transactionHash": to_hex(tx_hash),
        "contractAddress": None,
        "status": "0x1",
        "gasUsed": hex(SYSTEM_GAS),
        "cumulativeGasUsed": hex((position + 1) * SYSTEM_GAS),
        "effectiveGasPrice": "0x0",
        "depositNonce": hex(block.number),
        "depositReceiptVersion": "0x1",
        "logsBloom": EMPTY_BLOOM,
        "logs": [],
    }
