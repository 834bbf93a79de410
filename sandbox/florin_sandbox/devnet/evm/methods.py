"""The methods of every Ethereum node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from eth_typing import Address

from florin_sandbox.devnet.dispatch import MethodEntry
from florin_sandbox.devnet.errors import RpcFault, invalid_params_fault
from florin_sandbox.devnet.evm import calls, params
from florin_sandbox.devnet.evm.chain import GWEI, EmbeddedEvmChain, ExecutionMoment
from florin_sandbox.devnet.evm.history import EvmBlock
from florin_sandbox.devnet.evm.mining import BlockProducer
from florin_sandbox.devnet.evm.token_fees import PLACEHOLDER
from florin_sandbox.devnet.evm.views import (
    GAS_LIMIT,
    build_block_view,
    build_transaction_view,
    to_hex,
)
from florin_sandbox.devnet.faults import FaultPlan

LOGS_MAX: Final = 10_000
FEE_HISTORY_MAX: Final = 1024
TIP: Final = GWEI

_LIVE_TAGS: Final = ("latest", "pending")


class EthMethods:
    """Reads of one chain, and eth_sendRawTransaction."""

    def __init__(self, chain: EmbeddedEvmChain, mining: BlockProducer, faults: FaultPlan) -> None:
        self._chain = chain
        self._producer = mining
        self._faults = faults
        self.methods: Mapping[str, MethodEntry] = {
            "web3_clientVersion": (lambda: "florin-devnet/1", 0, 0),
            "net_version": (lambda: str(chain.chain_id), 0, 0),
            "net_listening": (lambda: True, 0, 0),
            "eth_accounts": (list, 0, 0),
            "eth_syncing": (lambda: False, 0, 0),
            "eth_chainId": (lambda: hex(chain.chain_id), 0, 0),
            "eth_blockNumber": (lambda: hex(self._visible_head.number), 0, 0),
            "eth_gasPrice": (lambda: hex(chain.base_fee + TIP), 0, 0),
            "eth_maxPriorityFeePerGas": (lambda: hex(TIP), 0, 0),
            "eth_feeHistory": (self._build_fee_history, 2, 3),
            "eth_getBalance": (self._get_balance, 1, 2),
            "eth_getCode": (self._get_code, 1, 2),
            "eth_getStorageAt": (self._get_storage, 2, 3),
            "eth_getTransactionCount": (self._count_transactions, 1, 2),
            "eth_call": (self._call, 1, 3),
            "eth_estimateGas": (self._estimate_gas, 1, 2),
            "eth_sendRawTransaction": (self._send_raw_transaction, 1, 1),
            "eth_getTransactionByHash": (self._find_transaction, 1, 1),
            "eth_getTransactionReceipt": (self._find_receipt, 1, 1),
            "eth_getBlockByNumber": (self._find_block_view, 1, 2),
            "eth_getBlockByHash": (self._find_block_view_by_hash, 1, 2),
            "eth_getBlockReceipts": (self._list_block_receipts, 1, 1),
            "eth_getLogs": (self._list_logs, 1, 1),
        }

    # ---- blocks by tag, number or hash

    @property
    def _visible_head(self) -> EvmBlock:
        """Return the newest visible block."""
        head, lag = self._chain.head, self._faults.lag
        return self._chain.get_block(max(0, head.number - lag)) if lag else head

    def _hide_lagging(self, block: EvmBlock | None) -> EvmBlock | None:
        return block if block is not None and block.number <= self._visible_head.number else None

    def _find_block(self, tag: Any) -> EvmBlock | None:
        """Return a block; "pending" is the newest block, as nothing is pending in it yet."""
        head = self._visible_head
        if isinstance(tag, dict):
            fields = params.parse_fields(tag, ("blockHash", "blockNumber", "requireCanonical"))
            if "blockHash" in fields:
                return self._find_block_by_hash(fields["blockHash"])
            tag = fields.get("blockNumber")
        if tag in _LIVE_TAGS:
            return head
        if tag in ("safe", "finalized"):
            rules = self._chain.rules
            depth = rules.safe_depth if tag == "safe" else rules.final_depth
            return self._chain.get_block(max(0, head.number - depth))
        number = 0 if tag == "earliest" else params.parse_quantity(tag)
        return self._chain.get_block(number) if number <= head.number else None

    def _find_block_by_hash(self, block_hash: Any) -> EvmBlock | None:
        return self._hide_lagging(
            self._chain.history.find_block_by_hash(params.parse_hash(block_hash))
        )

    def _find_moment(self, tag: Any) -> ExecutionMoment:
        """Return the moment for a tag; the newest block uses the current time, as it may be old."""
        block = self._find_block(tag)
        if block is None:
            raise RpcFault("header not found")
        time = max(self._chain.now(), block.time) if tag in _LIVE_TAGS else block.time
        return ExecutionMoment(block, block.number + (tag == "pending"), time)

    # ---- state

    def _get_balance(self, account: Any, tag: Any = "latest") -> str:
        place, moment = Address(params.parse_address(account)), self._find_moment(tag)
        if self._chain.fees is not None:
            return hex(PLACEHOLDER)
        with self._chain.open_machine(moment) as machine:
            return hex(machine.get_balance(place))

    def _get_code(self, account: Any, tag: Any = "latest") -> str:
        place = Address(params.parse_address(account))
        with self._chain.open_machine(self._find_moment(tag)) as machine:
            return to_hex(machine.get_code(place))

    def _get_storage(self, account: Any, slot: Any, tag: Any = "latest") -> str:
        place = Address(params.parse_address(account))
        with self._chain.open_machine(self._find_moment(tag)) as machine:
            return f"0x{machine.get_storage(place, params.parse_quantity(slot)):064x}"

    def _count_transactions(self, account: Any, tag: Any = "latest") -> str:
        place = Address(params.parse_address(account))
        with self._chain.open_machine(self._find_moment(tag)) as machine:
            mined = machine.get_nonce(place)
        return hex(self._chain.pool.get_next_nonce(place, mined) if tag == "pending" else mined)

    def _call(self, call: Any, tag: Any = "latest", overrides: Any = None) -> str:
        if overrides:
            raise invalid_params_fault("state overrides are not supported")
        return to_hex(
            calls.simulate_call(self._chain, params.parse_call(call), self._find_moment(tag))
        )

    def _estimate_gas(self, call: Any, tag: Any = "latest") -> str:
        return hex(calls.estimate_gas(self._chain, params.parse_call(call), self._find_moment(tag)))

    # ---- transactions

    def _send_raw_transaction(self, raw: Any) -> str:
        waiting = self._chain.submit_transaction(params.parse_data(raw))
        self._producer.record_submission()
        return to_hex(waiting.hash)

    def _find_transaction(self, transaction_hash: Any) -> Any:
        parsed_hash = params.parse_hash(transaction_hash)
        waiting = self._chain.pool.find_transaction(parsed_hash)
        if waiting is not None:
            return build_transaction_view(waiting.transaction, self._chain.chain_id, None, 0)
        return self._load_json(self._chain.history.find_body(parsed_hash))

    def _find_receipt(self, transaction_hash: Any) -> Any:
        return self._load_json(
            self._chain.history.find_receipt(params.parse_hash(transaction_hash))
        )

    def _load_json(self, json: bytes | None) -> Any:
        if json is None:
            return None
        if (
            self._faults.lag
            and int(orjson.loads(json)["blockNumber"], 16) > self._visible_head.number
        ):
            return None
        return orjson.Fragment(json)

    # ---- blocks

    def _find_block_view(self, tag: Any, full: Any = False) -> Any:
        block = self._find_block(tag)
        if tag == "pending" and block is not None:
            return self._build_pending_block(block)
        return self._build_block_view(block, full)

    def _find_block_view_by_hash(self, block_hash: Any, full: Any = False) -> Any:
        return self._build_block_view(self._find_block_by_hash(block_hash), full)

    def _build_block_view(self, block: EvmBlock | None, full: Any) -> Any:
        if block is None:
            return None
        history = self._chain.history
        if full:
            return build_block_view(
                block, [orjson.Fragment(body) for body in history.list_bodies(block.number)]
            )
        return build_block_view(
            block, [to_hex(tx_hash) for tx_hash in history.list_transaction_hashes(block.number)]
        )

    def _build_pending_block(self, head: EvmBlock) -> dict[str, Any]:
        """Return the next block without transactions; it has no hash yet."""
        time = max(self._chain.now(), head.time)
        block = EvmBlock(head.number + 1, b"", head.hash, time, self._chain.base_fee, 0, b"")
        return {**build_block_view(block, []), "hash": None, "nonce": None, "miner": None}

    def _list_block_receipts(self, tag: Any) -> Any:
        if isinstance(tag, str) and len(tag) == 66:
            tag = {"blockHash": tag}
        block = self._find_block(tag)
        if block is None:
            return None
        return [
            orjson.Fragment(receipt)
            for receipt in self._chain.history.list_receipts(block.number, block.number)
        ]

    def _list_logs(self, log_filter: Any) -> list[Any]:
        fields = params.parse_fields(
            log_filter, ("fromBlock", "toBlock", "blockHash", "address", "topics")
        )
        first, last = self._parse_range(fields)
        addresses = _parse_alternatives(fields.get("address"))
        topics = fields.get("topics", [])
        if not isinstance(topics, list) or len(topics) > 4:
            raise invalid_params_fault("invalid argument: topics is a list of at most four")
        wanted_topics = [_parse_alternatives(topic) for topic in topics]
        matching_logs: list[Any] = []
        for receipt in self._chain.history.list_receipts(first, last):
            logs = orjson.loads(receipt)["logs"]
            matching_logs += (log for log in logs if _is_match(log, addresses, wanted_topics))
            if len(matching_logs) > LOGS_MAX:
                raise RpcFault(f"query returned more than {LOGS_MAX} results", -32005)
        return matching_logs

    def _parse_range(self, log_filter: Mapping[str, Any]) -> tuple[int, int]:
        if "blockHash" in log_filter:
            if "fromBlock" in log_filter or "toBlock" in log_filter:
                raise invalid_params_fault("cannot specify both BlockHash and FromBlock/ToBlock")
            block = self._find_block({"blockHash": log_filter["blockHash"]})
            if block is None:
                raise RpcFault("unknown block")
            return block.number, block.number
        first = self._find_block(log_filter.get("fromBlock", "latest"))
        last = self._find_block(log_filter.get("toBlock", "latest")) or self._visible_head
        if first is None:
            return 1, 0
        if first.number > last.number:
            raise invalid_params_fault("invalid block range params")
        return first.number, last.number

    def _build_fee_history(
        self, blocks: Any, newest: Any, percentiles: Any = None
    ) -> dict[str, Any]:
        last = self._find_block(newest)
        if last is None:
            raise RpcFault("request beyond head block")
        most = min(params.parse_count(blocks, 2**32), FEE_HISTORY_MAX, last.number + 1)
        found_blocks = [self._chain.get_block(last.number - back) for back in range(most)][::-1]
        following = self._chain.base_fee
        if last.number < self._chain.head.number:
            following = self._chain.get_block(last.number + 1).base_fee
        answer: dict[str, Any] = {
            "oldestBlock": hex(last.number + 1 - most),
            "baseFeePerGas": [hex(block.base_fee) for block in found_blocks] + [hex(following)],
            "gasUsedRatio": [block.gas_used / GAS_LIMIT for block in found_blocks],
        }
        if percentiles:
            answer["reward"] = [[hex(TIP)] * len(percentiles) for _ in found_blocks]
        return answer


def _parse_alternatives(value: Any) -> frozenset[str] | None:
    """Return the hex texts of which one must match; None matches anything."""
    if value is None or value == []:
        return None
    texts = value if isinstance(value, list) else [value]
    return frozenset("0x" + params.parse_data(text).hex() for text in texts)


def _is_match(
    log: Mapping[str, Any],
    addresses: frozenset[str] | None,
    topics: Sequence[frozenset[str] | None],
) -> bool:
    if addresses is not None and log["address"].lower() not in addresses:
        return False
    has = log["topics"]
    return len(has) >= len(topics) and all(
        alternatives is None or topic in alternatives
        for alternatives, topic in zip(topics, has, strict=False)
    )
