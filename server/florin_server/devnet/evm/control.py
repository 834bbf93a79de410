"""The methods that only a development chain has: blocks on demand, test money, faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from florin_server.devnet.arming import DELAY_MAX_MS, PLAN, TIMES_MAX, Arming, member, wanted
from florin_server.devnet.dispatch import Method
from florin_server.devnet.errors import RpcFault, bad_params
from florin_server.devnet.evm import faucet, params
from florin_server.devnet.evm.chain import KEPT_STATES, Chain
from florin_server.devnet.evm.mining import Mining
from florin_server.devnet.evm.pool import Pool
from florin_server.devnet.evm.views import hexed
from florin_server.devnet.faults import Fault, Faults
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.gifts import Gifts

BLOCKS_MAX: Final = 10_000
ACCOUNTS_MAX: Final = 256
WEI_MAX: Final = 2**62
SNAPSHOTS_MAX: Final = 1_000  # each keeps the transactions that waited


@dataclass(frozen=True, slots=True)
class _Snapshot:
    number: int
    hash: bytes
    pool: Pool


class ControlMethods:
    """What tests and the demo do to the chain."""

    def __init__(self, chain: Chain, mining: Mining, faults: Faults, gifts: Gifts) -> None:
        self._chain = chain
        self._gifts = gifts
        self._mining = mining
        self._faults = faults
        self._snapshots: dict[int, _Snapshot] = {}
        self._ids = itertools.count(1)
        kinds: Mapping[str, Callable[[Any], Any]] = {
            "answer": self._plan,
            "mining": self._pause,
            "reorg": self._reorg,
            "baseFee": self._set_base_fee,
            "evict": self._evict,
            "revert": self._let_fail,
            "lag": self._lag,
            "list": self._list,
        }
        # each kind that lasts, and what ends it
        ends: Mapping[str, Callable[[], Any]] = {
            "answer": faults.clear,
            "mining": mining.resume,
            "revert": partial(setattr, chain, "reverting", 0),
            "lag": partial(setattr, faults, "lag", 0),
        }
        self.table: Mapping[str, Method] = {
            "evm_mine": (self._mine, 0, 1),
            "evm_snapshot": (self._snapshot, 0, 0),
            "evm_revert": (self._revert, 1, 1),
            "florin_faucet": (self._faucet, 1, 1),
            "florin_fault": (Arming(kinds, ends, params.fields).arm, 1, 1),
        }

    # ---- blocks on demand

    def _mine(self, options: Any = None) -> str:
        given = params.fields(options or {}, ("blocks",))
        for _ in range(params.count(given.get("blocks", 1), BLOCKS_MAX)):
            self._chain.mine()
        return "0x0"

    def _snapshot(self) -> str:
        if len(self._snapshots) >= SNAPSHOTS_MAX:
            raise RpcFault(f"{SNAPSHOTS_MAX} snapshots are kept already: revert to one of them")
        number = next(self._ids)
        head = self._chain.head
        self._snapshots[number] = _Snapshot(head.number, head.hash, self._chain.pool.copy())
        self._pin()
        return hex(number)

    def _revert(self, wanted: Any) -> bool:
        number = params.quantity(wanted)
        snapshot = self._snapshots.get(number)
        if snapshot is None:
            return False
        self._snapshots = {one: kept for one, kept in self._snapshots.items() if one < number}
        chain = self._chain
        there = snapshot.number <= chain.head.number
        if there and chain.block(snapshot.number).hash == snapshot.hash:
            if snapshot.number < chain.head.number:
                chain.rewind(snapshot.number)
            chain.pool = snapshot.pool
        else:
            there = False
        self._pin()
        return there

    def _pin(self) -> None:
        kept = [snapshot.number for snapshot in self._snapshots.values()]
        self._chain.pin(min(kept) if kept else None)

    # ---- test money

    def _faucet(self, options: Any) -> dict[str, Any]:
        given = params.fields(options, ("accounts", "tokens", "nativeWei", "tokenUnits", "rarely"))
        accounts = _addresses(given.get("accounts"))
        asked = _addresses(given.get("tokens", [DEVNET.token.address]))
        units = params.quantity(given["tokenUnits"]) if "tokenUnits" in given else None
        known = {bytes.fromhex(token.address[2:]): token for token in DEVNET.tokens}
        if not known.keys() >= set(asked):
            raise bad_params("the faucet has no such token")
        tokens = [known[one] for one in dict.fromkeys(asked)]
        wei = params.quantity(given["nativeWei"]) if "nativeWei" in given else None
        rarely = given.get("rarely") is True
        sent = faucet.top_up(self._chain, self._gifts, accounts, tokens, wei, units, rarely=rarely)
        return {
            "transactions": [hexed(one) for one in sent],
            "blockNumber": hex(self._chain.head.number) if sent else None,
        }

    # ---- faults

    def _plan(self, options: Any) -> bool:
        given = params.fields(options, PLAN)
        method, effect = wanted(given, "eth_sendRawTransaction")
        fault = Fault(
            effect=effect,
            times=_count(given, "times", TIMES_MAX, 1),
            message=str(given.get("message", "injected fault")),
            code=member(given, "code", params.integer, -32000),
            delay_s=_count(given, "delayMs", DELAY_MAX_MS, 1000) / 1000,
            result=given.get("result"),
        )
        self._faults.plan(method, fault)
        return True

    def _pause(self, options: Any) -> bool:
        paused = params.fields(options, ("paused",)).get("paused")
        if not isinstance(paused, bool):
            raise bad_params("paused is true or false")
        if paused:
            self._mining.paused = True
        else:
            self._mining.resume()
        return True

    def _reorg(self, options: Any) -> dict[str, str]:
        given = params.fields(options, ("depth", "drop", "delay"))
        depth = _count(given, "depth", KEPT_STATES, 1)
        dropped = member(given, "drop", _hashes, [])
        delay = _count(given, "delay", depth + 1, 0)
        head = self._chain.reorg(depth, set(dropped), delay)
        return {"number": hex(head.number), "hash": hexed(head.hash)}

    def _set_base_fee(self, options: Any) -> bool:
        wei = member(params.fields(options, ("wei",)), "wei", params.quantity)
        if wei > WEI_MAX:
            raise bad_params(f"wei: no base fee is above {hex(WEI_MAX)}")
        self._chain.base_fee = wei
        return True

    def _evict(self, options: Any) -> int:
        """Drops waiting transactions, as a full pool does; tells how many there were."""
        hashes = member(params.fields(options, ("transactions",)), "transactions", _hashes)
        pool = self._chain.pool
        waiting = [found for one in hashes if (found := pool.get(one)) is not None]
        for one in waiting:
            pool.remove(one)
        return len(waiting)

    def _let_fail(self, options: Any) -> bool:
        """The next transactions that are sealed fail; test money comes all the same."""
        given = params.fields(options, ("times",))
        self._chain.reverting = _count(given, "times", TIMES_MAX, 1)
        return True

    def _lag(self, options: Any) -> bool:
        """Reads are answered as if the newest blocks did not exist; what is sent gets there."""
        given = params.fields(options, ("blocks",))
        self._faults.lag = _count(given, "blocks", KEPT_STATES - 1)
        return True

    def _list(self, options: Any) -> list[dict[str, Any]]:
        """What is armed now."""
        params.fields(options, ())
        found = self._faults.listed()
        if self._mining.paused:
            found.append({"kind": "mining", "paused": True})
        if self._chain.reverting:
            found.append({"kind": "revert", "times": self._chain.reverting})
        return found


def _addresses(value: Any) -> list[bytes]:
    if not isinstance(value, list) or len(value) > ACCOUNTS_MAX:
        raise bad_params(f"invalid argument: not a list of at most {ACCOUNTS_MAX} addresses")
    return [params.address(one) for one in value]


def _hashes(value: Any) -> list[bytes]:
    if not isinstance(value, list):
        raise bad_params("invalid argument: not a list of transaction hashes")
    return [params.hash32(one) for one in value]


def _count(given: Mapping[str, Any], name: str, most: int, default: int | None = None) -> int:
    return member(given, name, lambda value: params.count(value, most), default)
