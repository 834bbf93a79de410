"""The methods that every Ethereum node has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from eth_typing import Address

from florin_server.devnet.dispatch import Method
from florin_server.devnet.errors import RpcFault, bad_params
from florin_server.devnet.evm import calls, params
from florin_server.devnet.evm.chain import GWEI, Chain, Moment
from florin_server.devnet.evm.history import Block
from florin_server.devnet.evm.mining import Mining
from florin_server.devnet.evm.token_fees import PLACEHOLDER
from florin_server.devnet.evm.views import GAS_LIMIT, block_view, hexed, transaction_view
from florin_server.devnet.faults import Faults

LOGS_MAX: Final = 10_000
FEE_HISTORY_MAX: Final = 1024
TIP: Final = GWEI

_LIVE: Final = ("latest", "pending")


class EthMethods:
    """Reads of one chain, and eth_sendRawTransaction."""

    def __init__(self, chain: Chain, mining: Mining, faults: Faults) -> None:
        self._chain = chain
        self._mining = mining
        self._faults = faults
        self.table: Mapping[str, Method] = {
            "web3_clientVersion": (lambda: "florin-devnet/1", 0, 0),
            "net_version": (lambda: str(chain.chain_id), 0, 0),
            "net_listening": (lambda: True, 0, 0),
            "eth_accounts": (list, 0, 0),
            "eth_syncing": (lambda: False, 0, 0),
            "eth_chainId": (lambda: hex(chain.chain_id), 0, 0),
            "eth_blockNumber": (lambda: hex(self._head.number), 0, 0),
            "eth_gasPrice": (lambda: hex(chain.base_fee + TIP), 0, 0),
            "eth_maxPriorityFeePerGas": (lambda: hex(TIP), 0, 0),
            "eth_feeHistory": (self._fee_history, 2, 3),
            "eth_getBalance": (self._balance, 1, 2),
            "eth_getCode": (self._code, 1, 2),
            "eth_getStorageAt": (self._storage, 2, 3),
            "eth_getTransactionCount": (self._transaction_count, 1, 2),
            "eth_call": (self._call, 1, 3),
            "eth_estimateGas": (self._estimate, 1, 2),
            "eth_sendRawTransaction": (self._send, 1, 1),
            "eth_getTransactionByHash": (self._transaction, 1, 1),
            "eth_getTransactionReceipt": (self._receipt, 1, 1),
            "eth_getBlockByNumber": (self._block, 1, 2),
            "eth_getBlockByHash": (self._block_by_hash, 1, 2),
            "eth_getBlockReceipts": (self._block_receipts, 1, 1),
            "eth_getLogs": (self._logs, 1, 1),
        }

    # ---- blocks by tag, number or hash

    @property
    def _head(self) -> Block:
        """The newest block that is told."""
        head, lag = self._chain.head, self._faults.lag
        return self._chain.block(max(0, head.number - lag)) if lag else head

    def _visible(self, block: Block | None) -> Block | None:
        return block if block is not None and block.number <= self._head.number else None

    def _find(self, tag: Any) -> Block | None:
        """A block; "pending" is the newest, for it holds nothing yet."""
        head = self._head
        if isinstance(tag, dict):
            given = params.fields(tag, ("blockHash", "blockNumber", "requireCanonical"))
            if "blockHash" in given:
                return self._by_hash(given["blockHash"])
            tag = given.get("blockNumber")
        if tag in _LIVE:
            return head
        if tag in ("safe", "finalized"):
            rules = self._chain.rules
            depth = rules.safe_depth if tag == "safe" else rules.final_depth
            return self._chain.block(max(0, head.number - depth))
        number = 0 if tag == "earliest" else params.quantity(tag)
        return self._chain.block(number) if number <= head.number else None

    def _by_hash(self, block_hash: Any) -> Block | None:
        return self._visible(self._chain.history.block_by_hash(params.hash32(block_hash)))

    def _moment(self, tag: Any) -> Moment:
        """For code at the newest block it is now: an idle chain's last block may be long ago."""
        block = self._find(tag)
        if block is None:
            raise RpcFault("header not found")
        time = max(self._chain.now(), block.time) if tag in _LIVE else block.time
        return Moment(block, block.number + (tag == "pending"), time)

    # ---- state

    def _balance(self, account: Any, tag: Any = "latest") -> str:
        place, moment = Address(params.address(account)), self._moment(tag)
        if self._chain.fees is not None:
            return hex(PLACEHOLDER)
        with self._chain.machine(moment) as machine:
            return hex(machine.get_balance(place))

    def _code(self, account: Any, tag: Any = "latest") -> str:
        place = Address(params.address(account))
        with self._chain.machine(self._moment(tag)) as machine:
            return hexed(machine.get_code(place))

    def _storage(self, account: Any, slot: Any, tag: Any = "latest") -> str:
        place = Address(params.address(account))
        with self._chain.machine(self._moment(tag)) as machine:
            return f"0x{machine.get_storage(place, params.quantity(slot)):064x}"

    def _transaction_count(self, account: Any, tag: Any = "latest") -> str:
        place = Address(params.address(account))
        with self._chain.machine(self._moment(tag)) as machine:
            mined = machine.get_nonce(place)
        return hex(self._chain.pool.next_nonce(place, mined) if tag == "pending" else mined)

    def _call(self, call: Any, tag: Any = "latest", overrides: Any = None) -> str:
        if overrides:
            raise bad_params("state overrides are not supported")
        return hexed(calls.simulate(self._chain, params.call(call), self._moment(tag)))

    def _estimate(self, call: Any, tag: Any = "latest") -> str:
        return hex(calls.estimate(self._chain, params.call(call), self._moment(tag)))

    # ---- transactions

    def _send(self, raw: Any) -> str:
        waiting = self._chain.submit(params.data(raw))
        self._mining.submitted()
        return hexed(waiting.hash)

    def _transaction(self, transaction_hash: Any) -> Any:
        wanted = params.hash32(transaction_hash)
        waiting = self._chain.pool.get(wanted)
        if waiting is not None:
            return transaction_view(waiting.transaction, self._chain.chain_id, None, 0)
        return self._stored(self._chain.history.body(wanted))

    def _receipt(self, transaction_hash: Any) -> Any:
        return self._stored(self._chain.history.receipt(params.hash32(transaction_hash)))

    def _stored(self, json: bytes | None) -> Any:
        if json is None:
            return None
        if self._faults.lag and int(orjson.loads(json)["blockNumber"], 16) > self._head.number:
            return None
        return orjson.Fragment(json)

    # ---- blocks

    def _block(self, tag: Any, full: Any = False) -> Any:
        block = self._find(tag)
        if tag == "pending" and block is not None:
            return self._pending(block)
        return self._view(block, full)

    def _block_by_hash(self, block_hash: Any, full: Any = False) -> Any:
        return self._view(self._by_hash(block_hash), full)

    def _view(self, block: Block | None, full: Any) -> Any:
        if block is None:
            return None
        history = self._chain.history
        if full:
            return block_view(block, [orjson.Fragment(one) for one in history.bodies(block.number)])
        return block_view(block, [hexed(one) for one in history.transactions(block.number)])

    def _pending(self, head: Block) -> dict[str, Any]:
        """The next block as if nothing went into it; it has no hash yet."""
        time = max(self._chain.now(), head.time)
        block = Block(head.number + 1, b"", head.hash, time, self._chain.base_fee, 0, b"")
        return {**block_view(block, []), "hash": None, "nonce": None, "miner": None}

    def _block_receipts(self, tag: Any) -> Any:
        if isinstance(tag, str) and len(tag) == 66:
            tag = {"blockHash": tag}
        block = self._find(tag)
        if block is None:
            return None
        return [
            orjson.Fragment(one) for one in self._chain.history.receipts(block.number, block.number)
        ]

    def _logs(self, wanted: Any) -> list[Any]:
        given = params.fields(wanted, ("fromBlock", "toBlock", "blockHash", "address", "topics"))
        first, last = self._range(given)
        addresses = _alternatives(given.get("address"))
        topics = given.get("topics", [])
        if not isinstance(topics, list) or len(topics) > 4:
            raise bad_params("invalid argument: topics is a list of at most four")
        wanted_topics = [_alternatives(one) for one in topics]
        found: list[Any] = []
        for receipt in self._chain.history.receipts(first, last):
            logs = orjson.loads(receipt)["logs"]
            found += (log for log in logs if _matches(log, addresses, wanted_topics))
            if len(found) > LOGS_MAX:
                raise RpcFault(f"query returned more than {LOGS_MAX} results", -32005)
        return found

    def _range(self, given: Mapping[str, Any]) -> tuple[int, int]:
        if "blockHash" in given:
            if "fromBlock" in given or "toBlock" in given:
                raise bad_params("cannot specify both BlockHash and FromBlock/ToBlock")
            block = self._find({"blockHash": given["blockHash"]})
            if block is None:
                raise RpcFault("unknown block")
            return block.number, block.number
        first = self._find(given.get("fromBlock", "latest"))
        last = self._find(given.get("toBlock", "latest")) or self._head
        if first is None:
            return 1, 0
        if first.number > last.number:
            raise bad_params("invalid block range params")
        return first.number, last.number

    def _fee_history(self, blocks: Any, newest: Any, percentiles: Any = None) -> dict[str, Any]:
        last = self._find(newest)
        if last is None:
            raise RpcFault("request beyond head block")
        most = min(params.count(blocks, 2**32), FEE_HISTORY_MAX, last.number + 1)
        found = [self._chain.block(last.number - back) for back in range(most)][::-1]
        following = self._chain.base_fee
        if last.number < self._chain.head.number:
            following = self._chain.block(last.number + 1).base_fee
        answer: dict[str, Any] = {
            "oldestBlock": hex(last.number + 1 - most),
            "baseFeePerGas": [hex(one.base_fee) for one in found] + [hex(following)],
            "gasUsedRatio": [one.gas_used / GAS_LIMIT for one in found],
        }
        if percentiles:
            answer["reward"] = [[hex(TIP)] * len(percentiles) for _ in found]
        return answer


def _alternatives(wanted: Any) -> frozenset[str] | None:
    """Hex texts of which one must match; None for anything."""
    if wanted is None or wanted == []:
        return None
    texts = wanted if isinstance(wanted, list) else [wanted]
    return frozenset("0x" + params.data(text).hex() for text in texts)


def _matches(
    log: Mapping[str, Any],
    addresses: frozenset[str] | None,
    topics: Sequence[frozenset[str] | None],
) -> bool:
    if addresses is not None and log["address"].lower() not in addresses:
        return False
    has = log["topics"]
    return len(has) >= len(topics) and all(
        wanted is None or topic in wanted for wanted, topic in zip(topics, has, strict=False)
    )
