"""Requests about payments that share payloads, and dry runs in the form of the settlement.

Payments of one moment are tried in one call, the settlement that would carry them. The contract's
answer for each payment is what would happen to it, even to the second of two that spend the same
money. A payment that does not settle there proves nothing, as another payment may be the cause; it
must be tried alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from florin_server.rails.connection.coalesce import LIMIT, RequestCoalescer
from florin_server.rails.connection.jsonrpc import RpcCall, RpcError
from florin_server.rails.evm.reading.dry_run import DryRun, DryRunner, DryRunRequest
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    parse_data,
    parse_uint,
)
from florin_server.rails.evm.reading.reader import DEPLOYLESS, EvmReader
from florin_server.rails.evm.reading.reads import ContractQuestion
from florin_server.rails.evm.sending.fees import compute_dry_run_gas
from florin_server.rails.evm.sending.forward_arguments import ForwardArguments
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.submission import (
    SubmissionItem,
    build_settlement_call,
    sort_items,
    split_items,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.settler import PayArguments
from florin_server.rails.types import RailUnavailable


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of trying a payment.

    `has_code` says whether the payer has code; None if the node does not return it. `is_settled` is
    true if the payment settled; otherwise it must still be tried alone. `other_spending` is the
    amount, in minor units, that the payer spent of the same token on payments that settled in the
    same call.
    """

    has_code: bool | None
    is_settled: bool
    other_spending: int = 0


_MANY_PAYERS = 4
_Question: TypeAlias = Sequence[DryRunRequest] | SubmissionItem


class PaymentTrials:
    """Calls to one chain's node; requests of about the same time share one payload."""

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        runs: DryRunner,
        reader: EvmReader,
        shares: GasShares,
    ) -> None:
        self._node = node
        self._reader = reader
        self._shares = shares
        self._chain = chain
        self._runs = runs
        self._coalescer: RequestCoalescer[_Question, Any] = RequestCoalescer(self._ask_together)

    async def ask_calls(self, *calls: DryRunRequest) -> list[Any]:
        """Return a result or an RpcError for each call."""
        answers: list[Any] = await self._coalescer(calls)
        return answers

    async def ask_separately(self, *calls: DryRunRequest) -> list[Any]:
        """Return results in a separate payload: an account with code may answer at great length."""
        return await self._runs.run(calls)

    async def lacks_gas(
        self, failed: DryRun, larger: DryRun, is_good: Callable[[Any], bool]
    ) -> bool:
        """Return whether a run fails for lack of gas; see `DryRunner.lacks_gas`."""
        return await self._runs.lacks_gas(failed, larger, is_good)

    async def try_payment(self, submission_item: SubmissionItem) -> TrialResult:
        """Try a payment that the payer's key signed; return also whether the payer has code.

        The result is meaningless for payers with code: only a trial alone shows what their code
        does.
        """
        tried: TrialResult = await self._coalescer(submission_item)
        return tried

    def build_single_trial(self, submission_item: SubmissionItem) -> DryRun:
        """Build the dry run of one payment, with the gas that its share of a settlement covers."""
        call = submission_item.encode_alone()
        gas = compute_dry_run_gas(call, submission_item.arguments.gas)
        return DryRun(submission_item.settler, call, gas)

    async def close(self) -> None:
        """Wait for the running payloads."""
        await self._coalescer.close()

    async def _ask_together(self, questions: Sequence[_Question]) -> list[Any]:
        plain = [question for question in questions if not isinstance(question, SubmissionItem)]
        # a wallet that sends a payment twice gets equal answers
        submission_items = list(
            dict.fromkeys(
                question for question in questions if isinstance(question, SubmissionItem)
            )
        )
        parts = list(self._split_parts(submission_items))
        calls = [*(call for calls in plain for call in calls), *map(self._build_trial, parts)]
        answered, coded = await self._read_answers(
            calls, [submission_item.arguments.payer for submission_item in submission_items]
        )
        answers = iter(answered)
        plain_answers = iter([[next(answers) for _ in calls] for calls in plain])
        outcomes = {
            submission_item: outcome
            for part in parts
            for submission_item, outcome in zip(
                part, _parse_results(part, next(answers)), strict=True
            )
        }
        tried = {
            submission_item: TrialResult(has_code, *outcomes[submission_item])
            for submission_item, has_code in zip(submission_items, coded, strict=True)
        }
        return [
            tried[question] if isinstance(question, SubmissionItem) else next(plain_answers)
            for question in questions
        ]

    async def _read_answers(
        self, calls: Sequence[DryRunRequest], payers: Sequence[str]
    ) -> tuple[list[Any], list[bool | None]]:
        """Return the answers to calls, and which payers have code.

        Many payers share one call too, if the node is read that way; one more payload costs far
        less than a call for each.
        """
        if len(payers) < _MANY_PAYERS or self._reader.strategy_order[0] != DEPLOYLESS:
            answers = await self._runs.run([*calls, *map(_build_code_call, payers)])
            return answers[: len(calls)], [_has_code(answer) for answer in answers[len(calls) :]]
        code_check = check_code(self._node, self._reader, payers)
        answers, code_flags = await asyncio.gather(self._runs.run(calls), code_check)
        return answers, code_flags

    def _split_parts(
        self, submission_items: Sequence[SubmissionItem]
    ) -> Iterator[Sequence[SubmissionItem]]:
        """Split the items into settlements, in the order of the contract's answer."""
        first, most = 0, LIMIT if self._chain.trials == "together" else 1
        for count in split_items(self._chain, submission_items, most):
            yield sort_items(submission_items[first : first + count])
            first += count

    def _build_trial(self, part: Sequence[SubmissionItem]) -> DryRun:
        # also for a single item: the result is a number, regardless of the payer's code
        sent = build_settlement_call(self._chain, part, self._shares)
        return DryRun(sent.to, sent.data, sent.gas)


async def check_code(node: EvmNode, reader: EvmReader, payers: Sequence[str]) -> list[bool | None]:
    """Return which payers have code, None if the node does not say; one read.

    Many payers share one call, if the node is read that way.
    """
    if len(payers) < _MANY_PAYERS or reader.strategy_order[0] != DEPLOYLESS:
        return [
            _has_code(answer)
            for answer in await node.batch([_build_code_call(payer) for payer in payers])
        ]
    places = [bytes.fromhex(payer[2:]) for payer in payers]
    # any question works: only accounts with code are asked
    answers = await reader.read([ContractQuestion(place, None, owner=place) for place in places])
    return [answer is not None for answer in answers]


def _build_code_call(payer: str) -> RpcCall:
    return ("eth_getCode", (payer, LATEST))


def _has_code(answer: Any) -> bool | None:
    try:
        return bool(parse_data(answer))
    except RailUnavailable:
        return None


def _parse_results(part: Sequence[SubmissionItem], answer: Any) -> list[tuple[bool, int]]:
    """Return whether each item settled, and what else its payer spent."""
    mask = _parse_mask(answer, len(part))
    settled = [
        submission_item.arguments for at, submission_item in enumerate(part) if mask >> at & 1
    ]
    return [
        (bool(mask >> at & 1), _compute_other_spending(submission_item.arguments, settled))
        for at, submission_item in enumerate(part)
    ]


def _parse_mask(answer: Any, count: int) -> int:
    """Return the bits of the settled payments; 0 if the whole call failed.

    A node may refuse a call that succeeds in smaller parts.
    """
    if isinstance(answer, RpcError):
        return 0
    try:
        mask = parse_uint(answer)
    except RailUnavailable:
        return 0
    return mask if mask < 1 << count else 0


def _compute_other_spending(
    pay: PayArguments | ForwardArguments,
    settled_arguments: Sequence[PayArguments | ForwardArguments],
) -> int:
    return sum(
        arguments.value
        for arguments in settled_arguments
        if (arguments.payer, arguments.token) == (pay.payer, pay.token) and arguments.ref != pay.ref
    )
