"""Transactions that wait for a block, by geth's rules."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from eth.abc import SignedTransactionAPI
from eth_typing import Address

from florin_sandbox.devnet.errors import RpcFault
from florin_sandbox.devnet.evm.state import FlatState

CAPACITY: Final = 6144  # geth's executable and queued slots together
# by which a replacement must exceed the earlier transaction, in both fees
RAISE_PERCENT: Final = 10


@dataclass(frozen=True, slots=True)
class PooledTransaction:
    """A transaction in the pool; `order` is the order of arrival."""

    transaction: SignedTransactionAPI
    raw: bytes
    sender: bytes
    hash: bytes
    order: int

    @property
    def nonce(self) -> int:
        """Return the sender's nonce."""
        return self.transaction.nonce

    @property
    def cost(self) -> int:
        """Return the most that it can take from the sender, in wei."""
        fields = self.transaction
        return fields.gas * fields.max_fee_per_gas + fields.value


class TransactionPool:
    """All pending transactions, by sender and nonce."""

    def __init__(self) -> None:
        self._by_sender: dict[bytes, dict[int, PooledTransaction]] = {}
        self._by_hash: dict[bytes, PooledTransaction] = {}
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._by_hash)

    def __iter__(self) -> Iterator[PooledTransaction]:
        return iter(list(self._by_hash.values()))

    def find_transaction(self, transaction_hash: bytes) -> PooledTransaction | None:
        """Return the pending transaction with that hash; None if it does not exist."""
        return self._by_hash.get(transaction_hash)

    def add_transaction(
        self, transaction: SignedTransactionAPI, raw: bytes, state: FlatState, balance: int
    ) -> PooledTransaction:
        """Add a decoded transaction of this chain, or refuse it like geth.

        `balance` is the sender's gas money, in wei.
        """
        new = self._build_pooled(transaction, raw)
        if new.hash in self._by_hash:
            raise RpcFault("already known")
        expected = state.get_nonce(transaction.sender)
        if new.nonce < expected:
            raise RpcFault(f"nonce too low: next nonce {expected}, tx nonce {new.nonce}")
        queue = self._by_sender.get(new.sender, {})
        replaced = queue.get(new.nonce)
        _check_funds(new, queue, replaced, balance)
        if replaced is not None:
            _check_replacement(new, replaced)
            self.remove_transaction(replaced)
        elif len(self) >= CAPACITY:
            raise RpcFault("txpool is full")
        self._insert(new)
        return new

    def restore_transaction(self, transaction: SignedTransactionAPI, raw: bytes) -> None:
        """Restore a transaction whose block is gone, in place of a younger one."""
        new = self._build_pooled(transaction, raw)
        younger = self._by_sender.get(new.sender, {}).get(new.nonce)
        if younger is not None:
            self.remove_transaction(younger)
        self._insert(new)

    def remove_transaction(self, pooled: PooledTransaction) -> None:
        """Remove a transaction."""
        queue = self._by_sender[pooled.sender]
        del queue[pooled.nonce]
        del self._by_hash[pooled.hash]
        if not queue:
            del self._by_sender[pooled.sender]

    def get_next_nonce(self, sender: bytes, mined_nonce: int) -> int:
        """Return the nonce after those that are mined or pending without a gap."""
        queue = self._by_sender.get(sender, {})
        while mined_nonce in queue:
            mined_nonce += 1
        return mined_nonce

    def copy_pool(self) -> TransactionPool:
        """Return a separate pool with these transactions."""
        copied_pool = TransactionPool()
        for waiting in self._by_hash.values():
            copied_pool.restore_transaction(waiting.transaction, waiting.raw)
        return copied_pool

    def list_candidates(
        self, state: FlatState, base_fee: int, sender: bytes | None
    ) -> Iterator[PooledTransaction]:
        """Yield executable transactions, best tip first, each sender's in order of nonce.

        A sender's transactions end with the first that does not raise its nonce.
        """
        best: list[tuple[int, int, PooledTransaction]] = []

        def offer(sender: bytes) -> None:
            queue = self._by_sender.get(sender, {})
            waiting = queue.get(state.get_nonce(Address(sender)))
            if waiting is not None and waiting.transaction.max_fee_per_gas >= base_fee:
                fields = waiting.transaction
                tip = min(fields.max_priority_fee_per_gas, fields.max_fee_per_gas - base_fee)
                heapq.heappush(best, (-tip, waiting.order, waiting))

        for address in [sender] if sender is not None else list(self._by_sender):
            offer(address)
        while best:
            waiting = heapq.heappop(best)[2]
            yield waiting
            if state.get_nonce(Address(waiting.sender)) == waiting.nonce + 1:
                offer(waiting.sender)

    def _build_pooled(self, transaction: SignedTransactionAPI, raw: bytes) -> PooledTransaction:
        return PooledTransaction(
            transaction, raw, transaction.sender, transaction.hash, next(self._order)
        )

    def _insert(self, pooled: PooledTransaction) -> None:
        self._by_sender.setdefault(pooled.sender, {})[pooled.nonce] = pooled
        self._by_hash[pooled.hash] = pooled


def _check_funds(
    pooled: PooledTransaction,
    queue: dict[int, PooledTransaction],
    replaced: PooledTransaction | None,
    balance: int,
) -> None:
    if balance < pooled.cost:
        raise RpcFault(
            "insufficient funds for gas * price + value: "
            f"balance {balance}, tx cost {pooled.cost}, overshot {pooled.cost - balance}"
        )
    queued = sum(pooled_transaction.cost for pooled_transaction in queue.values()) - (
        replaced.cost if replaced else 0
    )
    if balance < queued + pooled.cost:
        raise RpcFault(
            f"insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, "
            f"tx cost {pooled.cost}, overshot {queued + pooled.cost - balance}"
        )


def _check_replacement(replacement: PooledTransaction, pooled: PooledTransaction) -> None:
    for fee in ("max_fee_per_gas", "max_priority_fee_per_gas"):
        if getattr(replacement.transaction, fee) * 100 < getattr(pooled.transaction, fee) * (
            100 + RAISE_PERCENT
        ):
            raise RpcFault("replacement transaction underpriced")
