"""The JSON for callers: blocks, transactions and receipts, in Ethereum's format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from eth.abc import SignedTransactionAPI
from eth_hash.auto import keccak

from florin_sandbox.devnet.evm.history import EvmBlock

GAS_LIMIT: Final = 60_000_000
COINBASE: Final = bytes.fromhex("c0" * 20)
MIX_HASH: Final = bytes.fromhex("01" * 32)
EMPTY_BLOOM: Final = "0x" + "00" * 256

_ZERO_HASH: Final = "0x" + "00" * 32
_EMPTY_UNCLES: Final = "0x" + keccak(b"\xc0").hex()
_NO_REQUESTS: Final = "0x" + sha256(b"").hexdigest()
_BLOOM_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class EvmOutcome:
    """The outcome of executing a transaction; `price` is in wei per unit of gas."""

    success: bool
    gas_used: int
    price: int
    contract_address: bytes | None
    logs: tuple[tuple[bytes, tuple[int, ...], bytes], ...]


def to_hex(data: bytes) -> str:
    """Return bytes in hex."""
    return "0x" + data.hex()


def build_block_view(block: EvmBlock, transactions: Sequence[Any]) -> dict[str, Any]:
    """Return a block; the roots of tries that this chain does not keep are zero."""
    return {
        "number": hex(block.number),
        "hash": to_hex(block.hash),
        "parentHash": to_hex(block.parent_hash),
        "timestamp": hex(block.time),
        "gasLimit": hex(GAS_LIMIT),
        "gasUsed": hex(block.gas_used),
        "baseFeePerGas": hex(block.base_fee),
        "miner": to_hex(COINBASE),
        "transactions": transactions,
        "logsBloom": to_hex(block.bloom) if block.bloom else EMPTY_BLOOM,
        "difficulty": "0x0",
        "totalDifficulty": "0x0",
        "extraData": "0x",
        "nonce": "0x0000000000000000",
        "mixHash": to_hex(MIX_HASH),
        "sha3Uncles": _EMPTY_UNCLES,
        "uncles": [],
        "size": "0x0",
        "stateRoot": _ZERO_HASH,
        "receiptsRoot": _ZERO_HASH,
        "transactionsRoot": _ZERO_HASH,
        "withdrawals": [],
        "withdrawalsRoot": _ZERO_HASH,
        "blobGasUsed": "0x0",
        "excessBlobGas": "0x0",
        "parentBeaconBlockRoot": _ZERO_HASH,
        "requestsHash": _NO_REQUESTS,
    }


def build_header_view(block: EvmBlock) -> dict[str, Any]:
    """Return a block's header: the block without all other fields."""
    left_out = {"transactions", "uncles", "size", "withdrawals", "totalDifficulty"}
    return {
        name: value for name, value in build_block_view(block, ()).items() if name not in left_out
    }


def build_transaction_view(
    fields: SignedTransactionAPI, chain_id: int, block: EvmBlock | None, position: int
) -> dict[str, Any]:
    """Return a transaction, mined in `block` or pending."""
    kind = fields.type_id or 0
    view: dict[str, Any] = {
        "hash": to_hex(fields.hash),
        "blockHash": to_hex(block.hash) if block else None,
        "blockNumber": hex(block.number) if block else None,
        "transactionIndex": hex(position) if block else None,
        "from": to_hex(fields.sender),
        "to": to_hex(fields.to) if fields.to else None,
        "nonce": hex(fields.nonce),
        "value": hex(fields.value),
        "gas": hex(fields.gas),
        "gasPrice": hex(fields.max_fee_per_gas),
        "input": to_hex(fields.data),
        "type": hex(kind),
        "chainId": hex(chain_id),
        "r": hex(fields.r),
        "s": hex(fields.s),
        "v": hex(fields.y_parity + (35 + 2 * chain_id if kind == 0 else 0)),
    }
    if kind == 0:
        return view
    view["yParity"] = hex(fields.y_parity)
    view["accessList"] = [
        {"address": to_hex(address), "storageKeys": [f"0x{slot:064x}" for slot in slots]}
        for address, slots in fields.access_list
    ]
    if kind >= 2:
        view["maxFeePerGas"] = hex(fields.max_fee_per_gas)
        view["maxPriorityFeePerGas"] = hex(fields.max_priority_fee_per_gas)
        if block:
            tip = min(fields.max_priority_fee_per_gas, fields.max_fee_per_gas - block.base_fee)
            view["gasPrice"] = hex(block.base_fee + tip)
    if kind == 4:
        view["authorizationList"] = [
            {
                "chainId": hex(authorization_api.chain_id),
                "address": to_hex(authorization_api.address),
                "nonce": hex(authorization_api.nonce),
                "yParity": hex(authorization_api.y_parity),
                "r": hex(authorization_api.r),
                "s": hex(authorization_api.s),
            }
            for authorization_api in fields.authorization_list
        ]
    return view


def build_receipt_view(
    fields: SignedTransactionAPI,
    block: EvmBlock,
    position: int,
    outcome: EvmOutcome,
    *,
    gas_before: int,
    logs_before: int,
) -> dict[str, Any]:
    """Return a receipt; `gas_before` and `logs_before` count the block's earlier transactions."""
    place = {
        "blockHash": to_hex(block.hash),
        "blockNumber": hex(block.number),
        "transactionHash": to_hex(fields.hash),
        "transactionIndex": hex(position),
    }
    bloom = compute_logs_bloom(outcome.logs)
    return {
        **place,
        "from": to_hex(fields.sender),
        "to": to_hex(fields.to) if fields.to else None,
        "contractAddress": to_hex(outcome.contract_address) if outcome.contract_address else None,
        "status": hex(outcome.success),
        "type": hex(fields.type_id or 0),
        "gasUsed": hex(outcome.gas_used),
        "cumulativeGasUsed": hex(gas_before + outcome.gas_used),
        "effectiveGasPrice": hex(outcome.price),
        "logsBloom": to_hex(bloom) if bloom else EMPTY_BLOOM,
        "logs": [
            {
                **place,
                "address": to_hex(address),
                "topics": [f"0x{topic:064x}" for topic in topics],
                "data": to_hex(data),
                "logIndex": hex(logs_before + index),
                "blockTimestamp": hex(block.time),
                "removed": False,
            }
            for index, (address, topics, data) in enumerate(outcome.logs)
        ],
    }


def compute_logs_bloom(logs: Iterable[tuple[bytes, tuple[int, ...], bytes]]) -> bytes:
    """Return Ethereum's Bloom filter over addresses and topics; empty without logs."""
    bits = 0
    for address, topics, _ in logs:
        bits |= _compute_bloom_bits(address)
        for topic in topics:
            bits |= _compute_bloom_bits(topic.to_bytes(32, "big"))
    return bits.to_bytes(_BLOOM_BITS // 8, "big") if bits else b""


@lru_cache(maxsize=4096)
def _compute_bloom_bits(item: bytes) -> int:
    digest = keccak(item)
    places = (int.from_bytes(digest[at : at + 2], "big") % _BLOOM_BITS for at in (0, 2, 4))
    return sum(1 << place for place in set(places))
