"""Questions about payments that travel together, and payments that are tried as they will be sent.

Payments of one moment are tried in one call, the very settlement that would bring them: what the
contract answers for each is what would happen to it, also to the second of two that spend the same
money. A payment that does not settle there proves nothing by that, since another one may be to
blame; it has to be tried alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin_server.rails.connection.coalesce import LIMIT, Coalescer
from florin_server.rails.connection.jsonrpc import Call, RpcError
from florin_server.rails.evm import settler
from florin_server.rails.evm.reading.dry_run import Asked, DryRun, DryRuns
from florin_server.rails.evm.reading.node import LATEST, Node, data, uint
from florin_server.rails.evm.reading.reader import DEPLOYLESS, Reader
from florin_server.rails.evm.reading.reads import Question
from florin_server.rails.evm.sending.fees import dry_run_gas
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.submission import Item, cut, submission
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.settler import Pay
from florin_server.rails.types import RailUnavailable


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of trying a payment.

    `has_code` tells that the payer has code; None if the node does not say. `settled` tells that
    the payment did; otherwise it is still to be tried alone. `besides` is what the payer spent of
    the same token on payments that settled in the same call, in minor units.
    """

    has_code: bool | None
    settled: bool
    besides: int = 0


_MANY = 4
_Question: TypeAlias = Sequence[Asked] | Item


class Trials:
    """Asks one chain's node; what is asked at about the same time goes into one payload."""

    def __init__(
        self, node: Node, chain: EvmChain, runs: DryRuns, reader: Reader, shares: GasShares
    ) -> None:
        self._node = node
        self._reader = reader
        self._shares = shares
        self._chain = chain
        self._runs = runs
        self._together: Coalescer[_Question, Any] = Coalescer(self._ask_together)

    async def ask(self, *calls: Asked) -> list[Any]:
        """A result or an RpcError for each call."""
        answers: list[Any] = await self._together(calls)
        return answers

    async def ask_apart(self, *calls: Asked) -> list[Any]:
        """The same in a payload of its own: what an account with code says may be very long."""
        return await self._runs.ask(calls)

    async def tried(self, item: Item) -> Tried:
        """What comes of a payment that the payer's key signed, and whether the payer has code.

        The answer says nothing about payers with code: what that does, only a trial alone tells.
        """
        tried: Tried = await self._together(item)
        return tried

    def alone(self, item: Item) -> DryRun:
        """Tries one payment, with no more gas than its share of a settlement covers."""
        call = settler.one(item.pay, by_permit2=item.by_permit2)
        gas = dry_run_gas(call, item.pay.gas)
        return DryRun(item.settler, call, gas)

    async def close(self) -> None:
        """Waits for the payloads under way."""
        await self._together.close()

    async def _ask_together(self, questions: Sequence[_Question]) -> list[Any]:
        plain = [one for one in questions if not isinstance(one, Item)]
        # a wallet that sends the same twice gets the same answer twice
        items = list(dict.fromkeys(one for one in questions if isinstance(one, Item)))
        parts = list(self._parts(items))
        calls = [*(call for calls in plain for call in calls), *map(self._trial, parts)]
        answered, coded = await self._answers(calls, [one.pay.payer for one in items])
        answers = iter(answered)
        told = iter([[next(answers) for _ in calls] for calls in plain])
        outcomes = {
            item: outcome
            for part in parts
            for item, outcome in zip(part, _read(part, next(answers)), strict=True)
        }
        tried = {
            item: Tried(has_code, *outcomes[item])
            for item, has_code in zip(items, coded, strict=True)
        }
        return [tried[one] if isinstance(one, Item) else next(told) for one in questions]

    async def _answers(
        self, calls: Sequence[Asked], payers: Sequence[str]
    ) -> tuple[list[Any], list[bool | None]]:
        """The answers to calls, and which payers have code.

        Many payers are asked about in one call too, where the node is read that way; a payload of
        its own is nothing against a call for each.
        """
        if len(payers) < _MANY or self._reader.order[0] != DEPLOYLESS:
            answers = await self._runs.ask([*calls, *map(_code_of, payers)])
            return answers[: len(calls)], [_has_code(one) for one in answers[len(calls) :]]
        told = coded(self._node, self._reader, payers)
        answers, found = await asyncio.gather(self._runs.ask(calls), told)
        return answers, found

    def _parts(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        """The items in settlements, in the order of each one's answer."""
        first, most = 0, LIMIT if self._chain.trials == "together" else 1
        for count in cut(self._chain, items, most):
            yield sorted(items[first : first + count], key=lambda one: one.by_permit2)
            first += count

    def _trial(self, part: Sequence[Item]) -> DryRun:
        # also of one: what comes back is a number, whatever the payer's code says if it has some
        sent = submission(self._chain, part, self._shares)
        return DryRun(sent.to, sent.data, sent.gas)


async def coded(node: Node, reader: Reader, payers: Sequence[str]) -> list[bool | None]:
    """Which payers have code, None where the node does not say; one read.

    Of many it is one call, where the node is read that way.
    """
    if len(payers) < _MANY or reader.order[0] != DEPLOYLESS:
        return [_has_code(one) for one in await node.batch([_code_of(one) for one in payers])]
    places = [bytes.fromhex(one[2:]) for one in payers]
    # what is asked hardly matters: only accounts with code are asked
    found = await reader.read([Question(one, None, of=one) for one in places])
    return [one is not None for one in found]


def _code_of(payer: str) -> Call:
    return ("eth_getCode", (payer, LATEST))


def _has_code(answer: Any) -> bool | None:
    try:
        return bool(data(answer))
    except RailUnavailable:
        return None


def _read(part: Sequence[Item], answer: Any) -> list[tuple[bool, int]]:
    """Whether each item settled, and what else its payer spent."""
    mask = _mask(answer, len(part))
    settled = [one.pay for at, one in enumerate(part) if mask >> at & 1]
    return [(bool(mask >> at & 1), _besides(one.pay, settled)) for at, one in enumerate(part)]


def _mask(answer: Any, count: int) -> int:
    """The bits of the payments that settled; none if the call failed as a whole.

    A node may refuse what is no trouble in smaller pieces.
    """
    if isinstance(answer, RpcError):
        return 0
    try:
        mask = uint(answer)
    except RailUnavailable:
        return 0
    return mask if mask < 1 << count else 0


def _besides(pay: Pay, settled: Sequence[Pay]) -> int:
    return sum(
        one.value
        for one in settled
        if (one.payer, one.token) == (pay.payer, pay.token) and one.ref != pay.ref
    )
