"""What a transaction may cost: enough for some full blocks in a row, never above the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from florin_server.rails.base import RailUnavailable
from florin_server.rails.evm.node import LATEST, Node, header, quantity
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.jsonrpc import RpcError

# Measured: 112,000 gas for one payment with a fee split, 64,000 for each of many. A share of the
# settlement covers the most that a dry run lets an item use, with its calldata, so that no item
# which was accepted can starve the others.
GAS_BASE = 40_000
GAS_ITEM = 180_000
GAS_ITEM_MAX = 150_000
GAS_WALLET_ITEM = 400_000
GAS_WALLET_ITEM_MAX = 300_000  # what the contract lets one item use
# What the opener lets one factory use, and the bytes and the call by which it is told. Measured:
# 328,550 gas for an account whose whole code is new, half of it for one that is a proxy.
OPEN_GAS = 500_000
GAS_OPENING = 530_000
# nodes take the place of a waiting transaction from 10 % on, some from 12.5 %
RAISE_PERCENT = 15
# In a second even the fastest chains make four blocks, and what is offered is good for five. What
# waits for longer is raised by what is asked then.
FEES_S = 1.0
# What is only tried need not offer exactly what will be signed: from one confirm to the next the
# fees are remembered for as long as full blocks hardly double them.
TRIED_S = 4.0


@dataclass(frozen=True, slots=True)
class Fees:
    """Of a type-2 transaction, in wei for each unit of gas."""

    max_fee: int
    tip: int


def gas_limit(plain: int, by_wallet: int, gas_max: int, opened: int = 0) -> int:
    """Gas for a settlement of `plain` items and `by_wallet` items signed by accounts with code.

    `opened` of the accounts are created first. Not estimated: it costs nothing to allow more than
    is used, and an estimate costs a call.
    """
    items = GAS_ITEM * plain + GAS_WALLET_ITEM * by_wallet + GAS_OPENING * opened
    return min(GAS_BASE + items, gas_max)


def dry_run_gas(call: bytes, *, by_key: bool, count: int = 1) -> int:
    """Gas to try items with: no more than their shares of a settlement cover."""
    return 21_000 + 16 * len(call) + count * (GAS_ITEM_MAX if by_key else GAS_WALLET_ITEM_MAX)


def fees_for(base_fee: int, tip: int, chain: EvmChain) -> Fees:
    """Twice the base fee and the tip, good for five full blocks in a row.

    RailUnavailable if even the next block is above the limit.
    """
    fees = fees_to_try(base_fee, tip, chain)
    if fees.max_fee > chain.fee_max:
        raise RailUnavailable(
            f"{chain.name}: gas costs more than the limit: {fees.max_fee} wei, fee_max is"
            f" {chain.fee_max}"
        )
    return fees


def fees_to_try(base_fee: int, tip: int, chain: EvmChain) -> Fees:
    """The same while gas costs more than the limit: what the next block asks for.

    What is confirmed then waits until it is cheaper.
    """
    tip = min(max(tip, 1), chain.tip_max)  # pools refuse a tip of zero
    return Fees(max_fee=max(min(2 * base_fee + tip, chain.fee_max), base_fee + tip), tip=tip)


def raised(old: Fees, asked: Fees, chain: EvmChain) -> Fees:
    """Fees that take the place of older ones: both higher by so much, and what is asked now.

    RailUnavailable if the limits do not allow that.
    """
    max_fee = min(max(_more(old.max_fee), asked.max_fee), chain.fee_max)
    tip = min(max(_more(old.tip), asked.tip), chain.tip_max, max_fee)
    if max_fee < _more(old.max_fee) or tip < _more(old.tip):
        raise RailUnavailable(
            f"{chain.name}: a waiting transaction offers as much as the limits allow:"
            f" {old.max_fee} wei and a tip of {old.tip}"
        )
    return Fees(max_fee=max_fee, tip=tip)


def _more(fee: int) -> int:
    return -(-fee * (100 + RAISE_PERCENT) // 100)


async def current_fees(node: Node, chain: EvmChain) -> Fees:
    """The fees to sign with now, one batched read."""
    base_fee, tip = await _asked(node, chain)
    return fees_for(base_fee, tip, chain)


async def _asked(node: Node, chain: EvmChain) -> tuple[int, int]:
    """The base fee of the newest block and a tip that is taken, in wei."""
    newest, suggested = await node.batch(
        [("eth_getBlockByNumber", (LATEST, False)), ("eth_maxPriorityFeePerGas", ())]
    )
    block = header(newest)
    if block is None:
        raise RailUnavailable(f"{chain.name}: the node has no newest block")
    # a node need not suggest a tip; a tenth of the base fee is taken anywhere
    tip = block.base_fee // 10 if isinstance(suggested, RpcError) else quantity(suggested)
    return block.base_fee, tip


class RecentFees:
    """The fees to sign with, asked for once for what is signed between two blocks.

    `now` tells monotonic seconds.
    """

    def __init__(self, node: Node, chain: EvmChain, now: Callable[[], float]) -> None:
        self._node = node
        self._chain = chain
        self._now = now
        self._known: tuple[float, tuple[int, int]] | None = None
        self._old = False

    def forget(self) -> None:
        """There is a new block: nothing is signed for these fees any more."""
        self._old = True

    def drop(self) -> None:
        """The fees were not taken."""
        self._known = None

    async def current(self) -> Fees:
        """Fees that were asked for a moment ago at most; RailUnavailable above the limit."""
        return fees_for(*await self._of(FEES_S, old=False), self._chain)

    async def recent(self) -> Fees:
        """Fees that were asked for some seconds ago at most, to try something with."""
        return fees_to_try(*await self._of(TRIED_S, old=True), self._chain)

    async def _of(self, age_s: float, *, old: bool) -> tuple[int, int]:
        """What was asked for at most so long ago; `old` allows for a block since then."""
        now, known = self._now(), self._known
        if known is None or now - known[0] > age_s or (self._old and not old):
            self._known = known = now, await _asked(self._node, self._chain)
            self._old = False
        return known[1]
