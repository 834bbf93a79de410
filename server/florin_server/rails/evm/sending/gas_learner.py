"""Finding out what gas payments need: prices measured on the chain, and trials with more gas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from florin_server.chains.evm import abi
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.reading.dry_run import PENDING, DryRun, DryRuns
from florin_server.rails.evm.reading.node import LATEST, Node, call_to, data, quantity, uint
from florin_server.rails.evm.sending.fees import dry_run_gas
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.submission import Item
from florin_server.rails.types import RailUnavailable

# Stores a word in a new slot, and returns the gas that it took: the price, with 2,108 around it.
_STORE: Final = "0x5a60016000555a90036000526020" + "6000f3"
_STORE_GAS: Final = 2_000_000  # Tempo asks for a million before the code runs
_SLOT_TODAY: Final = 22_108
_PLAIN_TODAY: Final = 21_000
_FLOOR_BYTES: Final = 1_000
_TRIED_MAX: Final = 3
# what a trial gets above the ceiling to find out whether it lacked nothing but gas
_ABOVE: Final = 4
_REPORTED_S: Final = 3600.0
_TRANSFER: Final = abi.selector("transfer(address,uint256)")


class GasLearner:
    """Learns the gas shares of one chain. `sender` is an address that exists there.

    `now` returns monotonic seconds.
    """

    def __init__(
        self,
        node: Node,
        runs: DryRuns,
        shares: GasShares,
        sender: str,
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self._scarce: dict[str, float] = {}  # tokens whose payments need more than the ceiling
        self._node = node
        self._runs = runs
        self.shares = shares
        self._sender = sender
        self._measured = False
        self._lock = asyncio.Lock()

    def new_block(self) -> None:
        """What was measured may have changed."""
        self._measured = False

    async def measure(self) -> None:
        """Measure the chain's prices, once a block; a node that does not answer changes nothing."""
        if self._measured:
            return
        plain = {"from": self._sender, "to": self._sender, "value": "0x0"}
        long = {**plain, "data": "0x" + "ff" * _FLOOR_BYTES}
        questions: list[Call] = [
            ("eth_call", ({"data": _STORE, "gas": hex(_STORE_GAS)}, LATEST)),
            ("eth_estimateGas", (plain, LATEST)),
            ("eth_estimateGas", (long, LATEST)),
        ]
        try:
            store, base, floor = await self._node.batch(questions)
        except RailUnavailable:
            return
        self._measured = True
        plain_gas = _read(base, quantity, _PLAIN_TODAY)
        long_gas = _read(floor, quantity, plain_gas)
        self.shares.record_measured(
            _read(store, uint, _SLOT_TODAY) - _SLOT_TODAY,
            plain_gas - _PLAIN_TODAY,
            -(-(long_gas - plain_gas) // _FLOOR_BYTES),
        )

    async def learn(self, forms: Sequence[Item]) -> bool:
        """Return whether payments that failed get more gas from now on than they had."""
        async with self._lock:
            await self.measure()
            signed_by_key = {one.pay.token: one for one in forms if one.by_key}
            for form in list(signed_by_key.values())[:_TRIED_MAX]:
                if not self._gets_more(form):
                    await self._learn_token(form)
        return any(map(self._gets_more, forms))

    async def needs_more(self, form: Item) -> bool:
        """Return whether a payment by a plain key fails for want of gas at the ceiling too."""
        above = _ABOVE * self.shares.ceiling
        pay = form.pay
        moved = _TRANSFER + abi.address(form.settler) + abi.number(pay.value)
        try:
            (settled,) = await self._runs.ask([self._trial(form, above)])
            (plain,) = await self._node.batch(
                [call_to(pay.token, moved, sender=pay.payer, gas=self.shares.ceiling)]
            )
        except RailUnavailable:
            return False
        needs = _is_good(settled) or (
            isinstance(plain, RpcError) and "out of gas" in plain.message.lower()
        )
        if needs:
            self._scarce[pay.token] = self._now()
        return needs

    def problems(self) -> list[str]:
        """Return what an operator has to know, one sentence each."""
        bound = f"the {self.shares.ceiling} gas of `payment_gas_max`"
        if self.shares.is_short:
            return [f"storage is so dear that payments need more than {bound}"]
        recent = [one for one, at in self._scarce.items() if self._now() - at <= _REPORTED_S]
        return [f"payments of {one} need more than {bound}" for one in sorted(recent)]

    def _gets_more(self, form: Item) -> bool:
        return form.pay.gas < self.shares.payment(form.pay.token, by_key=form.by_key)

    async def _learn_token(self, form: Item) -> None:
        """Find the gas with which a payment settles, by doubling it up to the ceiling."""
        ceiling, gas = self.shares.ceiling, form.pay.gas
        try:
            at_most, *codes = await self._runs.ask(
                [
                    self._trial(form, ceiling),
                    ("eth_getCode", (form.pay.payer, LATEST)),
                    ("eth_getCode", (form.pay.payer, PENDING)),
                ]
            )
            # code could choose how much it uses; a node need not know the next block
            if not _is_good(at_most) or not all(map(_is_empty, codes)):
                return
            (had,) = await self._runs.ask([self._trial(form, gas)])
            while (gas := min(2 * gas, ceiling)) < ceiling:
                (answer,) = await self._runs.ask([self._trial(form, gas)])
                if _is_good(answer):
                    break
        except RailUnavailable:
            return
        # one that settles with what it had did not fail for want of gas
        if not _is_good(had):
            self.shares.record_needed(form.pay.token, min(gas + gas // 4, ceiling))

    def _trial(self, form: Item, gas: int) -> DryRun:
        call = settler.one(form.pay, by_permit2=form.by_permit2)
        return DryRun(form.settler, call, dry_run_gas(call, gas))


def _is_good(answer: Any) -> bool:
    if isinstance(answer, RpcError):
        return False
    try:
        data(answer)
    except RailUnavailable:
        return False
    return True


def _is_empty(code: Any) -> bool:
    return isinstance(code, RpcError) or not data(code)


def _read(answer: Any, read: Callable[[Any], int], otherwise: int) -> int:
    """Return what a node measured; what it cannot is as usual."""
    if isinstance(answer, RpcError):
        return otherwise
    try:
        return read(answer)
    except RailUnavailable:
        return otherwise
