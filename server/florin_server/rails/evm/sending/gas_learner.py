"""The gas that payments need: prices measured on the chain, and dry runs with more gas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.evm.reading.dry_run import PENDING, DryRun, DryRunner
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_data,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.sending.fees import compute_dry_run_gas
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.submission import SubmissionItem
from florin_server.rails.types import RailUnavailable

# Stores a word in a new slot and returns the gas it used: the price, plus 2,108.
_STORE: Final = "0x5a60016000555a90036000526020" + "6000f3"
_STORE_GAS: Final = 2_000_000  # Tempo charges a million before the code runs
_SLOT_GAS: Final = 22_108
_PLAIN_GAS: Final = 21_000
_FLOOR_BYTES: Final = 1_000
_LEARN_MAX: Final = 3
# margin above the ceiling for a dry run that finds out whether only gas was missing
_MARGIN_DIVISOR: Final = 4
_REPORTED_S: Final = 3600.0
_TRANSFER: Final = abi.encode_selector("transfer(address,uint256)")


class GasLearner:
    """Learn the gas shares of one chain. `sender` is an address that exists there.

    `now` returns monotonic seconds.
    """

    def __init__(
        self,
        node: EvmNode,
        runs: DryRunner,
        shares: GasShares,
        sender: str,
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self._short_tokens: dict[
            str, float
        ] = {}  # tokens whose payments need more than the ceiling
        self._node = node
        self._runs = runs
        self.shares = shares
        self._sender = sender
        self._is_measured = False
        self._lock = asyncio.Lock()

    def record_new_block(self) -> None:
        """Mark the measured prices as outdated."""
        self._is_measured = False

    async def measure_prices(self) -> None:
        """Measure the chain's prices, once a block.

        Keep the old values if the node does not answer.
        """
        if self._is_measured:
            return
        plain = {"from": self._sender, "to": self._sender, "value": "0x0"}
        long = {**plain, "data": "0x" + "ff" * _FLOOR_BYTES}
        questions: list[RpcCall] = [
            ("eth_call", ({"data": _STORE, "gas": hex(_STORE_GAS)}, LATEST)),
            ("eth_estimateGas", (plain, LATEST)),
            ("eth_estimateGas", (long, LATEST)),
        ]
        try:
            store, base, floor = await self._node.batch(questions)
        except RailUnavailable:
            return
        self._is_measured = True
        plain_gas = _read_measured(base, parse_quantity, _PLAIN_GAS)
        long_gas = _read_measured(floor, parse_quantity, plain_gas)
        self.shares.record_prices(
            _read_measured(store, parse_uint, _SLOT_GAS) - _SLOT_GAS,
            plain_gas - _PLAIN_GAS,
            -(-(long_gas - plain_gas) // _FLOOR_BYTES),
        )

    async def learn_gas(self, submission_items: Sequence[SubmissionItem]) -> bool:
        """Return whether payments that failed get more gas from now on than they had."""
        async with self._lock:
            await self.measure_prices()
            signed_by_key = {
                submission_item.arguments.token: submission_item
                for submission_item in submission_items
                if submission_item.is_key_signature
            }
            for submission_item in list(signed_by_key.values())[:_LEARN_MAX]:
                if not self._has_more_gas(submission_item):
                    await self._learn_token(submission_item)
        return any(map(self._has_more_gas, submission_items))

    async def is_above_ceiling(self, submission_item: SubmissionItem) -> bool:
        """Return whether a plain key's payment lacks gas even at the ceiling."""
        above = _MARGIN_DIVISOR * self.shares.ceiling
        pay = submission_item.arguments
        moved = (
            _TRANSFER + abi.encode_address(submission_item.settler) + abi.encode_uint256(pay.value)
        )
        try:
            lacks = await self._runs.lacks_gas(
                self._build_trial(submission_item, self.shares.ceiling),
                self._build_trial(submission_item, above),
                _is_good,
            )
            (plain,) = await self._node.batch(
                [build_call(pay.token, moved, sender=pay.payer, gas=self.shares.ceiling)]
            )
        except RailUnavailable:
            return False
        needs = lacks or (isinstance(plain, RpcError) and "out of gas" in plain.message.lower())
        if needs:
            self._short_tokens[pay.token] = self._now()
        return needs

    def list_problems(self) -> list[str]:
        """Return the problems for the operator, one sentence each."""
        bound = f"the {self.shares.ceiling} gas of `payment_gas_max`"
        if self.shares.is_short:
            return [f"storage costs so much that payments need more than {bound}"]
        recent = [
            token for token, at in self._short_tokens.items() if self._now() - at <= _REPORTED_S
        ]
        return [f"payments of {token} need more than {bound}" for token in sorted(recent)]

    def _has_more_gas(self, submission_item: SubmissionItem) -> bool:
        return submission_item.arguments.gas < self.shares.get_payment_gas(
            submission_item.arguments.token, by_key=submission_item.is_key_signature
        )

    async def _learn_token(self, submission_item: SubmissionItem) -> None:
        """Find the gas with which a payment settles, by doubling it up to the ceiling."""
        ceiling, gas = self.shares.ceiling, submission_item.arguments.gas
        try:
            at_most, *codes = await self._runs.run(
                [
                    self._build_trial(submission_item, ceiling),
                    ("eth_getCode", (submission_item.arguments.payer, LATEST)),
                    ("eth_getCode", (submission_item.arguments.payer, PENDING)),
                ]
            )
            # code could choose how much gas it uses; a node need not know the next block
            if not _is_good(at_most) or not all(map(_is_empty, codes)):
                return
            (had,) = await self._runs.run([self._build_trial(submission_item, gas)])
            while (gas := min(2 * gas, ceiling)) < ceiling:
                (answer,) = await self._runs.run([self._build_trial(submission_item, gas)])
                if _is_good(answer):
                    break
        except RailUnavailable:
            return
        # a payment that settles with the gas it had did not fail for lack of gas
        if not _is_good(had):
            self.shares.record_payment_gas(
                submission_item.arguments.token, min(gas + gas // 4, ceiling)
            )

    def _build_trial(self, submission_item: SubmissionItem, gas: int) -> DryRun:
        call = submission_item.encode_alone()
        return DryRun(submission_item.settler, call, compute_dry_run_gas(call, gas))


def _is_good(answer: Any) -> bool:
    if isinstance(answer, RpcError):
        return False
    try:
        parse_data(answer)
    except RailUnavailable:
        return False
    return True


def _is_empty(code: Any) -> bool:
    return isinstance(code, RpcError) or not parse_data(code)


def _read_measured(answer: Any, parse: Callable[[Any], int], default: int) -> int:
    """Return what a node measured, or `default` if it cannot."""
    if isinstance(answer, RpcError):
        return default
    try:
        return parse(answer)
    except RailUnavailable:
        return default
