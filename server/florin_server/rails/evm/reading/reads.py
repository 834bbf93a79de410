"""Three strategies to read many values at the newest block, with equal answers.

`deployless` is one eth_call that creates a contract whose code would be the answers; it needs
nothing on the chain. `multicall3` is one eth_call of a contract that most chains have. `batch` is
one eth_call for each question, in one payload; every node supports it.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import AnswerTooLarge, RpcCall, RpcError
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    parse_data,
    parse_quantity,
)
from florin_server.rails.evm.setup.bytecode import load_bytecode
from florin_server.rails.types import RailUnavailable

# more than any reasonable token needs to return a number, so that no answer is truncated
READ_GAS: Final = 1_000_000
# of one eth_call; the protocol's limit for a transaction, and below what nodes allow a call
CALL_GAS: Final = 1 << 24

# the most of one call that accounts with code can burn; the rest is left for tokens
_FOREIGN_GAS: Final = CALL_GAS // 2

# accounts' own answers in one payload: the gas of a question buys about 800 kB of hex
_OWNER_ANSWERS_MAX: Final = 4

# creation code can have 49,152 bytes, and what it returns 24,576
_QUESTION_BYTES: Final = 48_000
_ANSWER_BYTES: Final = 24_000
_CODE: Final = load_bytecode("ChainReader").init
_HEAD: Final = struct.Struct(">B20sIHH")
_CALL, _COIN, _GUARD = 0, 1, 2

_AGGREGATE3: Final = abi.encode_selector("aggregate3((address,bool,bytes)[])")
_ETH_BALANCE: Final = abi.encode_selector("getEthBalance(address)")
_TRUE: Final = abi.encode_uint256(1)
_FAILED: Final = bytes(abi.WORD)


class ContractQuestion(NamedTuple):
    """A call of a contract or, without data, a read of an account's coin balance.

    At most the first `max_bytes` bytes of an answer are returned. With `owner` the question is
    asked only if that account has code.
    """

    to: bytes
    data: bytes | None
    gas: int = READ_GAS
    max_bytes: int = abi.WORD
    owner: bytes | None = None


ContractAnswer: TypeAlias = tuple[bool, bytes] | None
"""The success of a call, and what it returned; None if it was not asked."""

ReadStrategy: TypeAlias = Callable[
    [EvmNode, Sequence[ContractQuestion]], Awaitable[list[ContractAnswer]]
]


async def read_batch(node: EvmNode, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
    """Send single calls in one payload; send questions that depend on code in a second payload."""
    owners = _list_owners(questions)
    plain = [question for question in questions if question.owner is None]
    raw_answers = await node.batch([*map(_build_code_call, owners), *map(_build_call, plain)])
    outcomes = list(map(_parse_outcome, plain, raw_answers[len(owners) :]))
    return await _read_guarded(node, questions, raw_answers[: len(owners)], outcomes)


async def read_deployless(
    node: EvmNode, questions: Sequence[ContractQuestion]
) -> list[ContractAnswer]:
    """Call a contract that exists for one eth_call; it also answers what depends on code."""
    groups = [
        (of, list(group)) for of, group in groupby(questions, key=lambda question: question.owner)
    ]
    calls: list[RpcCall] = []
    parts: list[list[tuple[bytes | None, list[ContractQuestion]]]] = []
    for part in _split_parts(groups):
        calls.append(_build_creation_call(b"".join(_encode_group(of, group) for of, group in part)))
        parts.append(part)
    answers: list[ContractAnswer] = []
    for part, answer in zip(parts, await node.batch(calls), strict=True):
        answers += _decode_answers(part, parse_data(answer))
    return answers


def create_multicall3_strategy(contract: str) -> ReadStrategy:
    """Build a strategy that calls Multicall3, which cannot check whether an account has code."""
    place = bytes.fromhex(contract[2:])

    async def way(node: EvmNode, questions: Sequence[ContractQuestion]) -> list[ContractAnswer]:
        owners = _list_owners(questions)
        plain = [question for question in questions if question.owner is None]
        calls = [
            (question.to, question.data)
            if question.data is not None
            else (place, _ETH_BALANCE + _to_word(question.to))
            for question in plain
        ]
        size = _ANSWER_BYTES // abi.WORD
        parts = [calls[i : i + size] for i in range(0, len(calls), size)]
        aggregate_calls = [
            _build_call_to(contract, _encode_aggregate(part), CALL_GAS) for part in parts
        ]
        raw_answers = await node.batch([*map(_build_code_call, owners), *aggregate_calls])
        outcomes: list[tuple[bool, bytes]] = []
        for part, answer in zip(parts, raw_answers[len(owners) :], strict=True):
            outcomes += _decode_results(parse_data(answer), len(part))
        outcomes = [
            (good, data[: question.max_bytes])
            for question, (good, data) in zip(plain, outcomes, strict=True)
        ]
        # a call that fails inside may only have had too little gas
        failed = [index for index, (good, _) in enumerate(outcomes) if not good]
        if failed:
            again = await node.batch([_build_call(plain[index]) for index in failed])
            for index, answer in zip(failed, again, strict=True):
                outcomes[index] = _parse_outcome(plain[index], answer)
        return await _read_guarded(node, questions, raw_answers[: len(owners)], outcomes)

    return way


# ---- separate calls


async def _read_guarded(
    node: EvmNode,
    questions: Sequence[ContractQuestion],
    codes: Sequence[Any],
    plain: Sequence[tuple[bool, bytes]],
) -> list[ContractAnswer]:
    """Return all answers, given the answers to plain questions; the others are asked separately.

    The others share no call, because their accounts are not ours.
    """
    coded = {
        of for of, code in zip(_list_owners(questions), codes, strict=True) if parse_data(code)
    }
    owned_questions = [each_question for each_question in questions if each_question.owner in coded]
    guarded, plain_answers = iter(await _ask_owners(node, owned_questions)), iter(plain)
    answers: list[ContractAnswer] = []
    for question in questions:
        if question.owner is None:
            answers.append(next(plain_answers))
        else:
            answers.append(next(guarded) if question.owner in coded else None)
    return answers


async def _ask_owners(
    node: EvmNode, questions: Sequence[ContractQuestion]
) -> list[tuple[bool, bytes]]:
    """Return the answers of, and about, accounts with code.

    Such an account's answer can be as long as its gas allows, so that only few of them share a
    payload. An answer above the size limit counts as no answer.
    """
    shared = [question for question in questions if question.owner != question.to]
    own = [question for question in questions if question.owner == question.to]
    first, rest = own[:_OWNER_ANSWERS_MAX], own[_OWNER_ANSWERS_MAX:]
    parts = [[*shared, *first], *(list(part) for part in _split_owners(rest))]
    part_answers = await asyncio.gather(*(_ask_batch(node, part) for part in parts))
    answers = [answer for part in part_answers for answer in part]
    common, owned = iter(answers[: len(shared)]), iter(answers[len(shared) :])
    return [
        next(owned) if question.owner == question.to else next(common) for question in questions
    ]


def _split_owners(questions: Sequence[ContractQuestion]) -> Iterator[Sequence[ContractQuestion]]:
    for start in range(0, len(questions), _OWNER_ANSWERS_MAX):
        yield questions[start : start + _OWNER_ANSWERS_MAX]


async def _ask_batch(
    node: EvmNode, questions: Sequence[ContractQuestion]
) -> list[tuple[bool, bytes]]:
    """Send one payload; send the calls one by one if the answer is too long."""
    try:
        raw_answers = await node.batch([_build_call(question) for question in questions])
    except AnswerTooLarge:
        if len(questions) > 1:
            alone = await asyncio.gather(*(_ask_batch(node, [question]) for question in questions))
            return [answer for part in alone for answer in part]
        if questions[0].owner != questions[0].to:
            raise
        return [(False, b"")]
    return list(map(_parse_outcome, questions, raw_answers))


def _list_owners(questions: Sequence[ContractQuestion]) -> list[bytes]:
    return list(
        dict.fromkeys(question.owner for question in questions if question.owner is not None)
    )


def _build_code_call(account: bytes) -> RpcCall:
    return ("eth_getCode", (_to_hex(account), LATEST))


def _build_call(question: ContractQuestion) -> RpcCall:
    if question.data is None:
        return ("eth_getBalance", (_to_hex(question.to), LATEST))
    return _build_call_to(_to_hex(question.to), question.data, question.gas)


def _build_call_to(contract: str, call: bytes, gas: int) -> RpcCall:
    return ("eth_call", ({"to": contract, "data": _to_hex(call), "gas": hex(gas)}, LATEST))


def _parse_outcome(question: ContractQuestion, answer: Any) -> tuple[bool, bytes]:
    """Return the answer to a separate call in the form a contract would see it."""
    if question.data is None:
        return True, abi.encode_uint256(parse_quantity(answer))
    if isinstance(answer, RpcError) and answer.is_revert:
        try:
            return False, parse_data(answer.data)[: question.max_bytes]
        except RailUnavailable:
            return False, b""
    return True, parse_data(answer)[: question.max_bytes]


def _to_hex(value: bytes) -> str:
    return "0x" + value.hex()


def _to_word(address: bytes) -> bytes:
    return address.rjust(abi.WORD, b"\0")


# ---- the contract that is never deployed


def _build_creation_call(questions: bytes) -> RpcCall:
    code = _CODE + abi.encode_uint256(abi.WORD) + abi.encode_bytes(questions)
    return ("eth_call", ({"data": _to_hex(code), "gas": hex(CALL_GAS)}, LATEST))


def _split_parts(
    groups: Sequence[tuple[bytes | None, list[ContractQuestion]]],
) -> Iterator[list[tuple[bytes | None, list[ContractQuestion]]]]:
    """Split the questions into parts for one call each; questions about one account stay together.

    The accounts of a part cannot burn the gas that the others need, however many of them try.
    """
    part: list[tuple[bytes | None, list[ContractQuestion]]] = []
    question_size = answer_size = burnt = 0
    for of, group in groups:
        pieces = (
            [group] if of is not None else [group[i : i + 64] for i in range(0, len(group), 64)]
        )
        for piece in pieces:
            asks = sum(29 + len(question.data or b"") for question in piece) + 29
            reports = sum(4 + question.max_bytes for question in piece) + 1
            burns = sum(
                question.gas
                for question in piece
                if question.owner == question.to and question.data is not None
            )
            full = question_size + asks > _QUESTION_BYTES or answer_size + reports > _ANSWER_BYTES
            if part and (full or burnt + burns > _FOREIGN_GAS):
                yield part
                part, question_size, answer_size, burnt = [], 0, 0, 0
            part.append((of, piece))
            question_size += asks
            answer_size += reports
            burnt += burns
    if part:
        yield part


def _encode_group(owner: bytes | None, group: Sequence[ContractQuestion]) -> bytes:
    pack = _HEAD.pack
    questions = b"".join(
        pack(_COIN, question.to, 0, 0, 0)
        if question.data is None
        else pack(_CALL, question.to, question.gas, question.max_bytes, len(question.data))
        + question.data
        for question in group
    )
    return questions if owner is None else pack(_GUARD, owner, 0, 0, len(questions)) + questions


def _decode_answers(
    part: Sequence[tuple[bytes | None, Sequence[ContractQuestion]]], returned: bytes
) -> Iterator[ContractAnswer]:
    """Parse the contract's answers; raise RailUnavailable unless the length matches exactly."""
    if returned[:1] != b"\x01":
        raise RailUnavailable("the node did not run the reading code")
    at = 1
    for of, group in part:
        if of is not None:
            at += 1
            if returned[at - 1 : at] != b"\x01":
                yield from (None for _ in group)
                continue
        for question in group:
            if question.data is None:
                yield True, returned[at : at + abi.WORD]
                at += abi.WORD
                continue
            size = min(int.from_bytes(returned[at + 1 : at + 4], "big"), question.max_bytes)
            yield returned[at : at + 1] == b"\x01", returned[at + 4 : at + 4 + size]
            at += 4 + question.max_bytes
    if at != len(returned):
        raise RailUnavailable("the node truncated the answer of the reading code")


# ---- Multicall3


def _encode_aggregate(calls: Sequence[tuple[bytes, bytes]]) -> bytes:
    pieces = [
        _to_word(to) + _TRUE + abi.encode_uint256(3 * abi.WORD) + abi.encode_bytes(call)
        for to, call in calls
    ]
    offsets, at = [], len(calls) * abi.WORD
    for piece in pieces:
        offsets.append(abi.encode_uint256(at))
        at += len(piece)
    head = _AGGREGATE3 + abi.encode_uint256(abi.WORD) + abi.encode_uint256(len(calls))
    return head + b"".join(offsets) + b"".join(pieces)


def _decode_results(returned: bytes, count: int) -> Iterator[tuple[bool, bytes]]:
    """Parse the results of aggregate3; raise RailUnavailable unless the count matches."""
    if _read_number(returned, 0) != abi.WORD or _read_number(returned, abi.WORD) != count:
        raise RailUnavailable("no Multicall3 contract is at its address")
    base = 2 * abi.WORD
    for index in range(count):
        at = base + _read_number(returned, base + index * abi.WORD)
        start = at + _read_number(returned, at + abi.WORD)
        size = _read_number(returned, start)
        content = returned[start + abi.WORD : start + abi.WORD + size]
        if len(content) != size:
            raise RailUnavailable("the node truncated the answer of Multicall3")
        yield returned[at : at + abi.WORD] != _FAILED, content


def _read_number(returned: bytes, offset: int) -> int:
    word = returned[offset : offset + abi.WORD]
    if len(word) != abi.WORD:
        raise RailUnavailable("no Multicall3 contract is at its address")
    return int.from_bytes(word, "big")
