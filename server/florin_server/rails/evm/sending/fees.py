"""What a transaction may cost: enough for some full blocks in a row, never above the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from florin_server.rails.evm.reading.node import (
    LATEST,
    Header,
    Node,
    header,
    optional_quantity,
    quantity,
)
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.pace import PaceMeter
from florin_server.rails.types import RailUnavailable

# What the settlement contract gives one payment at most, and what a dry run lets it use. Measured,
# with a fee that is split off and before any refund of gas: 101,000 if the payer's key signed, and
# 135,000 if the receivers are new to the token. A token behind a proxy takes some more, and a
# contract account checks a signature as it likes.
KEY_GAS = 180_000
WALLET_GAS = 300_000
# What the opener lets one factory use. Measured: 328,550 gas for an account whose whole code is
# new, half of it for one that is a proxy.
OPEN_GAS = 500_000
# What a transaction costs besides its payments. Measured: 22,000, and 27,000 through the opener.
GAS_BASE = 40_000
# What comes with each payment and each opening besides its own gas: its call, with what the
# contract wants to be left for that, and the event if it fails. Measured: 7,000 at most.
_AROUND = 15_000
# A byte of calldata, and the memory that holds it for a call: no more than this as long as all
# calldata is as short as is sent. Whatever is done besides, nodes charge the floor (EIP-7623).
_BYTE_GAS = 17
_FLOOR_GAS = 40
_INTRINSIC_GAS = 21_000
# nodes take the place of a waiting transaction from 10 % on, some from 12.5 %
RAISE_PERCENT = 15
# In a second even the fastest chains make four blocks, and what is offered is good for five. What
# waits for longer is raised by what is asked then.
FEES_S = 1.0
# What is only tried need not offer exactly what will be signed: from one confirm to the next the
# fees are remembered for as long as full blocks hardly double them, six of them.
TRIED_S = 4.0
_TRIED_BLOCKS = 6


@dataclass(frozen=True, slots=True)
class Fees:
    """Of a type-2 transaction, in wei for each unit of gas."""

    max_fee: int
    tip: int


def payment_share(most: int, size: int) -> int:
    """Gas of a settlement that is there for one payment of so many bytes of calldata.

    The payment may use `most`, and cannot use more than this share, whatever it does: each has all
    of its gas, and nothing of another's. Not estimated: it costs nothing to allow more than is
    used, and an estimate costs a call.
    """
    # the settlement contract calls itself, and the opener calls it
    return _before_call(_before_call(most + _AROUND)) + _BYTE_GAS * size


def opening_share(size: int) -> int:
    """The same for an account that is created first, told in so many bytes."""
    return _before_call(OPEN_GAS + _AROUND) + _BYTE_GAS * size


def transaction_gas(shares: int, size: int, floor: int = _FLOOR_GAS) -> int:
    """Gas for a transaction with so many bytes of calldata, from the sum of its shares."""
    return max(GAS_BASE + shares, _INTRINSIC_GAS + floor * size)


def _before_call(gas: int) -> int:
    """What must be left for a call to be given so much: it gets no more than 63/64 of that."""
    return -(-gas * 64 // 63)


def dry_run_gas(call: bytes, most: int = WALLET_GAS) -> int:
    """Gas to try a call with that may use `most`, as one payment may in a settlement."""
    zeros = call.count(0)
    data = 16 * (len(call) - zeros) + 4 * zeros
    return _INTRINSIC_GAS + data + most


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
    base_fee, tip = await _base_fee_and_tip(node, chain)
    return fees_for(base_fee, tip, chain)


async def _base_fee_and_tip(node: Node, chain: EvmChain) -> tuple[int, int]:
    """The base fee of the newest block and a tip that is taken, in wei."""
    newest, suggested = await node.batch(
        [("eth_getBlockByNumber", (LATEST, False)), ("eth_maxPriorityFeePerGas", ())]
    )
    block = header(newest)
    if block is None:
        raise RailUnavailable(f"{chain.name}: the node has no newest block")
    base_fee = await base_fee_of(block, node)
    # a node need not suggest a tip; a tenth of the base fee is taken anywhere
    tip = optional_quantity(suggested)
    return base_fee, base_fee // 10 if tip is None else tip


async def base_fee_of(block: Header, node: Node) -> int:
    """Return a block's base fee in wei, or the node's gas price where it reports no base fee."""
    if block.base_fee is not None:
        return block.base_fee
    return quantity(await node.ask("eth_gasPrice"))


class RecentFees:
    """The fees to sign with, asked for once for what is signed between two blocks.

    `now` tells monotonic seconds, `pace` how fast blocks come.
    """

    def __init__(
        self, node: Node, chain: EvmChain, now: Callable[[], float], pace: PaceMeter
    ) -> None:
        self._node = node
        self._chain = chain
        self._now = now
        self._pace = pace
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
        block_s = self._pace.block_s or TRIED_S
        age_s = min(TRIED_S, max(FEES_S, _TRIED_BLOCKS * block_s))
        return fees_to_try(*await self._of(age_s, old=True), self._chain)

    async def _of(self, age_s: float, *, old: bool) -> tuple[int, int]:
        """What was asked for at most so long ago; `old` allows for a block since then."""
        now, known = self._now(), self._known
        if known is None or now - known[0] > age_s or (self._old and not old):
            self._known = known = now, await _base_fee_and_tip(self._node, self._chain)
            self._old = False
        return known[1]
