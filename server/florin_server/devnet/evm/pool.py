"""Transactions that wait for a block, by geth's rules."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from eth.abc import SignedTransactionAPI
from eth_typing import Address

from florin_server.devnet.errors import RpcFault
from florin_server.devnet.evm.state import FlatState

CAPACITY: Final = 6144  # geth's executable and queued slots together
RAISE_PERCENT: Final = 10  # what a replacement must offer more, in both fees


@dataclass(frozen=True, slots=True)
class Waiting:
    """A transaction in the pool. `order` tells who came first."""

    transaction: SignedTransactionAPI
    raw: bytes
    sender: bytes
    hash: bytes
    order: int

    @property
    def nonce(self) -> int:
        """The sender's."""
        return self.transaction.nonce

    @property
    def cost(self) -> int:
        """The most that it can take from the sender, in wei."""
        fields = self.transaction
        return fields.gas * fields.max_fee_per_gas + fields.value


class Pool:
    """All waiting transactions, by sender and nonce."""

    def __init__(self) -> None:
        self._by_sender: dict[bytes, dict[int, Waiting]] = {}
        self._by_hash: dict[bytes, Waiting] = {}
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._by_hash)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._by_hash.values()))

    def get(self, transaction_hash: bytes) -> Waiting | None:
        """The waiting transaction with that hash."""
        return self._by_hash.get(transaction_hash)

    def add(
        self, transaction: SignedTransactionAPI, raw: bytes, state: FlatState, held: int
    ) -> Waiting:
        """Takes a decoded transaction of this chain, or refuses it as geth would.

        `held` is what its sender can pay with, in wei.
        """
        new = self._waiting(transaction, raw)
        if new.hash in self._by_hash:
            raise RpcFault("already known")
        expected = state.get_nonce(transaction.sender)
        if new.nonce < expected:
            raise RpcFault(f"nonce too low: next nonce {expected}, tx nonce {new.nonce}")
        queue = self._by_sender.get(new.sender, {})
        replaced = queue.get(new.nonce)
        _check_funds(new, queue, replaced, held)
        if replaced is not None:
            _check_replacement(new, replaced)
            self.remove(replaced)
        elif len(self) >= CAPACITY:
            raise RpcFault("txpool is full")
        self._insert(new)
        return new

    def restore(self, transaction: SignedTransactionAPI, raw: bytes) -> None:
        """Takes a transaction back whose block is gone, in place of a younger one."""
        new = self._waiting(transaction, raw)
        younger = self._by_sender.get(new.sender, {}).get(new.nonce)
        if younger is not None:
            self.remove(younger)
        self._insert(new)

    def remove(self, waiting: Waiting) -> None:
        """Forgets a transaction."""
        queue = self._by_sender[waiting.sender]
        del queue[waiting.nonce]
        del self._by_hash[waiting.hash]
        if not queue:
            del self._by_sender[waiting.sender]

    def next_nonce(self, sender: bytes, mined: int) -> int:
        """The nonce after those that are mined or wait without a gap."""
        queue = self._by_sender.get(sender, {})
        while mined in queue:
            mined += 1
        return mined

    def copy(self) -> Pool:
        """The same transactions in a pool of their own."""
        twin = Pool()
        for waiting in self._by_hash.values():
            twin.restore(waiting.transaction, waiting.raw)
        return twin

    def candidates(self, state: FlatState, base_fee: int, only: bytes | None) -> Iterator[Waiting]:
        """Executable transactions, best tip first, each sender's in order of nonce.

        A sender ends with the first transaction that does not raise its nonce.
        """
        best: list[tuple[int, int, Waiting]] = []

        def offer(sender: bytes) -> None:
            queue = self._by_sender.get(sender, {})
            waiting = queue.get(state.get_nonce(Address(sender)))
            if waiting is not None and waiting.transaction.max_fee_per_gas >= base_fee:
                fields = waiting.transaction
                tip = min(fields.max_priority_fee_per_gas, fields.max_fee_per_gas - base_fee)
                heapq.heappush(best, (-tip, waiting.order, waiting))

        for sender in [only] if only is not None else list(self._by_sender):
            offer(sender)
        while best:
            waiting = heapq.heappop(best)[2]
            yield waiting
            if state.get_nonce(Address(waiting.sender)) == waiting.nonce + 1:
                offer(waiting.sender)

    def _waiting(self, transaction: SignedTransactionAPI, raw: bytes) -> Waiting:
        return Waiting(transaction, raw, transaction.sender, transaction.hash, next(self._order))

    def _insert(self, new: Waiting) -> None:
        self._by_sender.setdefault(new.sender, {})[new.nonce] = new
        self._by_hash[new.hash] = new


def _check_funds(
    new: Waiting, queue: dict[int, Waiting], replaced: Waiting | None, balance: int
) -> None:
    if balance < new.cost:
        raise RpcFault(
            "insufficient funds for gas * price + value: "
            f"balance {balance}, tx cost {new.cost}, overshot {new.cost - balance}"
        )
    queued = sum(one.cost for one in queue.values()) - (replaced.cost if replaced else 0)
    if balance < queued + new.cost:
        raise RpcFault(
            f"insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, "
            f"tx cost {new.cost}, overshot {queued + new.cost - balance}"
        )


def _check_replacement(new: Waiting, old: Waiting) -> None:
    for fee in ("max_fee_per_gas", "max_priority_fee_per_gas"):
        if getattr(new.transaction, fee) * 100 < getattr(old.transaction, fee) * (
            100 + RAISE_PERCENT
        ):
            raise RpcFault("replacement transaction underpriced")
