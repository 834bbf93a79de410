"""Methods that only a development chain has: blocks on demand, test money, faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from florin_sandbox.devnet.dispatch import MethodEntry
from florin_sandbox.devnet.errors import RpcFault, invalid_params_fault
from florin_sandbox.devnet.evm import faucet, params
from florin_sandbox.devnet.evm.chain import STATES_MAX, EmbeddedEvmChain
from florin_sandbox.devnet.evm.mining import BlockProducer
from florin_sandbox.devnet.evm.pool import TransactionPool
from florin_sandbox.devnet.evm.views import to_hex
from florin_sandbox.devnet.faucet_limits import GiftBudgets
from florin_sandbox.devnet.fault_controller import (
    DELAY_MAX_MS,
    PLAN_FIELDS,
    TIMES_MAX,
    FaultController,
    parse_effect,
    parse_member,
)
from florin_sandbox.devnet.faults import FaultPlan, PlannedFault
from florin_sandbox.devnet.genesis import DEVNET

BLOCKS_MAX: Final = 10_000
ACCOUNTS_MAX: Final = 256
WEI_MAX: Final = 2**62
SNAPSHOTS_MAX: Final = 1_000  # each keeps the pool's transactions


@dataclass(frozen=True, slots=True)
class _EvmSnapshot:
    number: int
    hash: bytes
    pool: TransactionPool


class EvmControlMethods:
    """The methods by which tests and the demo control the chain."""

    def __init__(
        self, chain: EmbeddedEvmChain, mining: BlockProducer, faults: FaultPlan, gifts: GiftBudgets
    ) -> None:
        self._chain = chain
        self._gifts = gifts
        self._producer = mining
        self._faults = faults
        self._snapshots: dict[int, _EvmSnapshot] = {}
        self._ids = itertools.count(1)
        kinds: Mapping[str, Callable[[Any], Any]] = {
            "answer": self._plan_fault,
            "mining": self._pause,
            "reorg": self._reorg,
            "baseFee": self._set_base_fee,
            "evict": self._evict,
            "revert": self._plan_reverts,
            "lag": self._lag,
            "list": self._list_faults,
        }
        # each kind that lasts, and the function that ends it
        ends: Mapping[str, Callable[[], Any]] = {
            "answer": faults.clear_faults,
            "mining": mining.resume,
            "revert": partial(setattr, chain, "revert_count", 0),
            "lag": partial(setattr, faults, "lag", 0),
        }
        self.methods: Mapping[str, MethodEntry] = {
            "evm_mine": (self._mine, 0, 1),
            "evm_snapshot": (self._snapshot, 0, 0),
            "evm_revert": (self._revert, 1, 1),
            "florin_faucet": (self._faucet, 1, 1),
            "florin_fault": (FaultController(kinds, ends, params.parse_fields).arm_fault, 1, 1),
        }

    # ---- blocks on demand

    def _mine(self, options: Any = None) -> str:
        fields = params.parse_fields(options or {}, ("blocks",))
        for _ in range(params.parse_count(fields.get("blocks", 1), BLOCKS_MAX)):
            self._chain.mine_block()
        return "0x0"

    def _snapshot(self) -> str:
        if len(self._snapshots) >= SNAPSHOTS_MAX:
            raise RpcFault(f"{SNAPSHOTS_MAX} snapshots exist already: revert to one of them")
        number = next(self._ids)
        head = self._chain.head
        self._snapshots[number] = _EvmSnapshot(head.number, head.hash, self._chain.pool.copy_pool())
        self._pin()
        return hex(number)

    def _revert(self, snapshot_id: Any) -> bool:
        number = params.parse_quantity(snapshot_id)
        snapshot = self._snapshots.get(number)
        if snapshot is None:
            return False
        self._snapshots = {
            each_number: evm_snapshot
            for each_number, evm_snapshot in self._snapshots.items()
            if each_number < number
        }
        chain = self._chain
        there = snapshot.number <= chain.head.number
        if there and chain.get_block(snapshot.number).hash == snapshot.hash:
            if snapshot.number < chain.head.number:
                chain.rewind_to(snapshot.number)
            chain.pool = snapshot.pool
        else:
            there = False
        self._pin()
        return there

    def _pin(self) -> None:
        pinned_numbers = [snapshot.number for snapshot in self._snapshots.values()]
        self._chain.pin_state(min(pinned_numbers) if pinned_numbers else None)

    # ---- test money

    def _faucet(self, options: Any) -> dict[str, Any]:
        fields = params.parse_fields(
            options, ("accounts", "tokens", "nativeWei", "tokenUnits", "rarely")
        )
        accounts = _parse_addresses(fields.get("accounts"))
        addresses = _parse_addresses(fields.get("tokens", [DEVNET.token.address]))
        units = params.parse_quantity(fields["tokenUnits"]) if "tokenUnits" in fields else None
        tokens_by_address = {bytes.fromhex(token.address[2:]): token for token in DEVNET.tokens}
        if not tokens_by_address.keys() >= set(addresses):
            raise invalid_params_fault("the faucet has no such token")
        tokens = [tokens_by_address[address] for address in dict.fromkeys(addresses)]
        wei = params.parse_quantity(fields["nativeWei"]) if "nativeWei" in fields else None
        rarely = fields.get("rarely") is True
        sent = faucet.top_up_accounts(
            self._chain, self._gifts, accounts, tokens, wei, units, only_below_half=rarely
        )
        return {
            "transactions": [to_hex(tx_hash) for tx_hash in sent],
            "blockNumber": hex(self._chain.head.number) if sent else None,
        }

    # ---- faults

    def _plan_fault(self, options: Any) -> bool:
        fields = params.parse_fields(options, PLAN_FIELDS)
        method, effect = parse_effect(fields, "eth_sendRawTransaction")
        fault = PlannedFault(
            effect=effect,
            times=_parse_count(fields, "times", TIMES_MAX, 1),
            message=str(fields.get("message", "injected fault")),
            code=parse_member(fields, "code", params.parse_integer, -32000),
            delay_s=_parse_count(fields, "delayMs", DELAY_MAX_MS, 1000) / 1000,
            result=fields.get("result"),
        )
        self._faults.add_fault(method, fault)
        return True

    def _pause(self, options: Any) -> bool:
        paused = params.parse_fields(options, ("paused",)).get("paused")
        if not isinstance(paused, bool):
            raise invalid_params_fault("paused is true or false")
        if paused:
            self._producer.is_paused = True
        else:
            self._producer.resume()
        return True

    def _reorg(self, options: Any) -> dict[str, str]:
        fields = params.parse_fields(options, ("depth", "drop", "delay"))
        depth = _parse_count(fields, "depth", STATES_MAX, 1)
        dropped = parse_member(fields, "drop", _parse_hashes, [])
        delay = _parse_count(fields, "delay", depth + 1, 0)
        head = self._chain.replace_blocks(depth, set(dropped), delay)
        return {"number": hex(head.number), "hash": to_hex(head.hash)}

    def _set_base_fee(self, options: Any) -> bool:
        wei = parse_member(params.parse_fields(options, ("wei",)), "wei", params.parse_quantity)
        if wei > WEI_MAX:
            raise invalid_params_fault(f"wei: no base fee is above {hex(WEI_MAX)}")
        self._chain.base_fee = wei
        return True

    def _evict(self, options: Any) -> int:
        """Drop pending transactions, as a full pool does; return how many were pending."""
        hashes = parse_member(
            params.parse_fields(options, ("transactions",)), "transactions", _parse_hashes
        )
        pool = self._chain.pool
        waiting = [
            pooled_transaction
            for tx_hash in hashes
            if (pooled_transaction := pool.find_transaction(tx_hash)) is not None
        ]
        for each_pooled_transaction in waiting:
            pool.remove_transaction(each_pooled_transaction)
        return len(waiting)

    def _plan_reverts(self, options: Any) -> bool:
        """Make the next sealed transactions fail; test money still arrives."""
        fields = params.parse_fields(options, ("times",))
        self._chain.revert_count = _parse_count(fields, "times", TIMES_MAX, 1)
        return True

    def _lag(self, options: Any) -> bool:
        """Answer reads as if the newest blocks did not exist; transactions still arrive."""
        fields = params.parse_fields(options, ("blocks",))
        self._faults.lag = _parse_count(fields, "blocks", STATES_MAX - 1)
        return True

    def _list_faults(self, options: Any) -> list[dict[str, Any]]:
        """Return the armed faults."""
        params.parse_fields(options, ())
        faults = self._faults.list_faults()
        if self._producer.is_paused:
            faults.append({"kind": "mining", "paused": True})
        if self._chain.revert_count:
            faults.append({"kind": "revert", "times": self._chain.revert_count})
        return faults


def _parse_addresses(value: Any) -> list[bytes]:
    if not isinstance(value, list) or len(value) > ACCOUNTS_MAX:
        raise invalid_params_fault(
            f"invalid argument: not a list of at most {ACCOUNTS_MAX} addresses"
        )
    return [params.parse_address(address) for address in value]


def _parse_hashes(value: Any) -> list[bytes]:
    if not isinstance(value, list):
        raise invalid_params_fault("invalid argument: not a list of transaction hashes")
    return [params.parse_hash(tx_hash) for tx_hash in value]


def _parse_count(
    options: Mapping[str, Any], name: str, count_max: int, default: int | None = None
) -> int:
    return parse_member(options, name, lambda value: params.parse_count(value, count_max), default)
