"""Fees of a transaction: enough for several full blocks in a row, never above the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from florin_server.rails.evm.reading.node import (
    LATEST,
    BlockHeader,
    EvmNode,
    parse_header,
    parse_optional_quantity,
    parse_quantity,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.pace import PaceMeter
from florin_server.rails.types import RailUnavailable

# The most gas that the settlement contract gives one payment, and a dry run lets it use. Measured,
# with a fee that is split off and before any refund of gas: 101,000 if the payer's key signed, and
# 135,000 if the receivers are new to the token. A token behind a proxy needs some more, and a
# contract account can use any amount to check a signature.
KEY_GAS = 180_000
WALLET_GAS = 300_000
# The most gas that the opener gives one factory. Measured: 328,550 for an account whose whole code
# is new, half of it for a proxy.
OPEN_GAS = 500_000
# The gas of a transaction besides its payments. Measured: 22,000, and 27,000 through the opener.
GAS_BASE = 40_000
# The gas of each payment and each opening besides its own gas: its call, what the contract requires
# to be left for that, and the event if it fails. Measured: at most 7,000.
_OVERHEAD_GAS = 15_000
# Gas for a byte of calldata, and for the memory that holds it in a call: no more than this for
# calldata as short as we send. Nodes charge the floor in any case (EIP-7623).
_BYTE_GAS = 17
_FLOOR_GAS = 40
_INTRINSIC_GAS = 21_000
# nodes replace a waiting transaction from 10 % more on, some from 12.5 %
RAISE_PERCENT = 15
# In a second even the fastest chains make four blocks, and an offer is good for five. A transaction
# that waits longer is raised to the fees of that time.
FEES_S = 1.0
# A dry run need not offer exactly what is signed later: between confirms, fees are cached for as
# long as full blocks hardly double them, six blocks.
TRIAL_FEES_S = 4.0
_TRIAL_BLOCKS = 6


@dataclass(frozen=True, slots=True)
class TransactionFees:
    """The fees of a type-2 transaction, in wei per unit of gas."""

    max_fee: int
    tip: int


def compute_payment_share(gas_max: int, size: int) -> int:
    """Return a settlement's gas for one payment with `size` bytes of calldata.

    The payment can use `gas_max`, and can never use more than this share: each payment has all of
    its own gas and none of another's. The value is not an estimate: unused gas costs nothing, and
    an estimate costs a call.
    """
    # the settlement contract calls itself, and the opener calls it
    return (
        _compute_gas_before_call(_compute_gas_before_call(gas_max + _OVERHEAD_GAS))
        + _BYTE_GAS * size
    )


def compute_creation_share(size: int) -> int:
    """Return the gas to create an account first, with `size` bytes of calldata."""
    return _compute_gas_before_call(OPEN_GAS + _OVERHEAD_GAS) + _BYTE_GAS * size


def compute_transaction_gas(shares: int, size: int, floor: int = _FLOOR_GAS) -> int:
    """Return the gas of a transaction with `size` bytes of calldata, from the sum of its shares."""
    return max(GAS_BASE + shares, _INTRINSIC_GAS + floor * size)


def _compute_gas_before_call(gas: int) -> int:
    """Return the gas that must be left to pass `gas` to a call, which gets at most 63/64 of it."""
    return -(-gas * 64 // 63)


def compute_dry_run_gas(call: bytes, gas_max: int = WALLET_GAS) -> int:
    """Return the gas to try a call that can use `gas_max`, like a payment in a settlement."""
    zeros = call.count(0)
    data = 16 * (len(call) - zeros) + 4 * zeros
    return _INTRINSIC_GAS + data + gas_max


def compute_fees(base_fee: int, tip: int, chain: EvmChainSettings) -> TransactionFees:
    """Return fees of twice the base fee and the tip, good for five full blocks in a row.

    Raise RailUnavailable if even the next block is above the limit.
    """
    fees = compute_trial_fees(base_fee, tip, chain)
    if fees.max_fee > chain.fee_max:
        raise RailUnavailable(
            f"{chain.name}: gas costs more than the limit: {fees.max_fee} wei; fee_max is"
            f" {chain.fee_max}"
        )
    return fees


def compute_trial_fees(base_fee: int, tip: int, chain: EvmChainSettings) -> TransactionFees:
    """Return fees for a dry run: those of the next block, even if they exceed the limit.

    A payment confirmed then waits until gas is cheaper.
    """
    tip = min(max(tip, 1), chain.tip_max)  # pools refuse a tip of zero
    return TransactionFees(
        max_fee=max(min(2 * base_fee + tip, chain.fee_max), base_fee + tip), tip=tip
    )


def raise_fees(
    previous: TransactionFees, current: TransactionFees, chain: EvmChainSettings
) -> TransactionFees:
    """Return fees that replace older fees: both raised by RAISE_PERCENT, and at least `current`.

    Raise RailUnavailable if the limits do not allow that.
    """
    max_fee = min(max(_raise_fee(previous.max_fee), current.max_fee), chain.fee_max)
    tip = min(max(_raise_fee(previous.tip), current.tip), chain.tip_max, max_fee)
    if max_fee < _raise_fee(previous.max_fee) or tip < _raise_fee(previous.tip):
        raise RailUnavailable(
            f"{chain.name}: a waiting transaction offers as much as the limits allow:"
            f" {previous.max_fee} wei and a tip of {previous.tip}"
        )
    return TransactionFees(max_fee=max_fee, tip=tip)


def _raise_fee(fee: int) -> int:
    return -(-fee * (100 + RAISE_PERCENT) // 100)


async def read_current_fees(node: EvmNode, chain: EvmChainSettings) -> TransactionFees:
    """Return the fees to sign with now, in one batched read."""
    base_fee, tip = await _read_base_fee_and_tip(node, chain)
    return compute_fees(base_fee, tip, chain)


async def _read_base_fee_and_tip(node: EvmNode, chain: EvmChainSettings) -> tuple[int, int]:
    """Return the newest block's base fee and an accepted tip, in wei."""
    newest, suggested = await node.batch(
        [("eth_getBlockByNumber", (LATEST, False)), ("eth_maxPriorityFeePerGas", ())]
    )
    block = parse_header(newest)
    if block is None:
        raise RailUnavailable(f"{chain.name}: the node has no newest block")
    base_fee = await read_base_fee(block, node)
    # a node need not suggest a tip; a tenth of the base fee is accepted anywhere
    tip = parse_optional_quantity(suggested)
    return base_fee, base_fee // 10 if tip is None else tip


async def read_base_fee(block: BlockHeader, node: EvmNode) -> int:
    """Return a block's base fee in wei, or the node's gas price if it reports no base fee."""
    if block.base_fee is not None:
        return block.base_fee
    return parse_quantity(await node.call("eth_gasPrice"))


class RecentFeeCache:
    """The fees to sign with, read once for all that is signed between two blocks.

    `now` returns monotonic seconds, `pace` measures the time between blocks.
    """

    def __init__(
        self, node: EvmNode, chain: EvmChainSettings, now: Callable[[], float], pace: PaceMeter
    ) -> None:
        self._node = node
        self._chain = chain
        self._now = now
        self._pace = pace
        self._cached: tuple[float, tuple[int, int]] | None = None
        self._is_old = False

    def expire(self) -> None:
        """Mark the fees as old after a new block: they are not used for signing any more."""
        self._is_old = True

    def drop(self) -> None:
        """Drop the fees after the node refused them."""
        self._cached = None

    async def get_current(self) -> TransactionFees:
        """Return fees read at most FEES_S ago; raise RailUnavailable above the limit."""
        return compute_fees(
            *await self._get_base_fee_and_tip(FEES_S, allow_previous_block=False), self._chain
        )

    async def get_recent(self) -> TransactionFees:
        """Return fees for a dry run, read at most some seconds ago."""
        block_s = self._pace.block_s or TRIAL_FEES_S
        age_s = min(TRIAL_FEES_S, max(FEES_S, _TRIAL_BLOCKS * block_s))
        return compute_trial_fees(
            *await self._get_base_fee_and_tip(age_s, allow_previous_block=True), self._chain
        )

    async def _get_base_fee_and_tip(
        self, age_s: float, *, allow_previous_block: bool
    ) -> tuple[int, int]:
        """Return the base fee and tip, read at most `age_s` ago."""
        now, cache_entry = self._now(), self._cached
        if (
            cache_entry is None
            or now - cache_entry[0] > age_s
            or (self._is_old and not allow_previous_block)
        ):
            self._cached = cache_entry = now, await _read_base_fee_and_tip(self._node, self._chain)
            self._is_old = False
        return cache_entry[1]
