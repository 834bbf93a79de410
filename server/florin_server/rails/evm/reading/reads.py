"""Three ways to read many things at the newest block; each gives the same answers.

`deployless` is one eth_call that creates a contract whose code would be the answers; it needs
nothing on the chain. `multicall3` is one eth_call of a contract that most chains have. `batch` is
one eth_call for each question, in one payload; every node can do that.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from florin_server.chains.evm import abi
from florin_server.rails.connection.jsonrpc import AnswerTooLarge, Call, RpcError
from florin_server.rails.evm.reading.node import LATEST, Node, data, quantity
from florin_server.rails.evm.setup.bytecode import bytecode
from florin_server.rails.types import RailUnavailable

# more than any sane token needs to tell a number, so that none of them is cut short
READ_GAS: Final = 1_000_000
# of one eth_call; the protocol's own limit for a transaction, below what nodes let a call use
CALL_GAS: Final = 1 << 24

# what accounts with code of their own may burn of one call; what tokens take is left for them
_STRANGERS_GAS: Final = CALL_GAS // 2

# own answers of accounts that share a payload: the gas of a question buys about 800 kB of hex
_OWN_ANSWERS_A_PAYLOAD: Final = 4

# creation code may have 49,152 bytes, and what it returns 24,576
_QUESTION_BYTES: Final = 48_000
_ANSWER_BYTES: Final = 24_000
_CODE: Final = bytecode("ChainReader").init
_HEAD: Final = struct.Struct(">B20sIHH")
_CALL, _COIN, _GUARD = 0, 1, 2

_AGGREGATE3: Final = abi.selector("aggregate3((address,bool,bytes)[])")
_ETH_BALANCE: Final = abi.selector("getEthBalance(address)")
_TRUE: Final = abi.number(1)
_FAILED: Final = bytes(abi.WORD)


class Question(NamedTuple):
    """What a contract returns, or, without data, how much coin an account has.

    At most the first `most` bytes of an answer are told. With `of` it is asked only if that account
    has code.
    """

    to: bytes
    data: bytes | None
    gas: int = READ_GAS
    most: int = abi.WORD
    of: bytes | None = None


Answer: TypeAlias = tuple[bool, bytes] | None
"""Whether a call went well, and what it returned; None if it was not asked."""

Way: TypeAlias = Callable[[Node, Sequence[Question]], Awaitable[list[Answer]]]


async def batch(node: Node, questions: Sequence[Question]) -> list[Answer]:
    """Asks one by one in one payload, and in a second one what depends on code that is there."""
    owners = _owners(questions)
    plain = [one for one in questions if one.of is None]
    told = await node.batch([*map(_code_of, owners), *map(_call, plain)])
    found = list(map(_outcome, plain, told[len(owners) :]))
    return await _guarded(node, questions, told[: len(owners)], found)


async def deployless(node: Node, questions: Sequence[Question]) -> list[Answer]:
    """Asks a contract that exists for the length of one eth_call; also what depends on code."""
    groups = [
        (of, list(group)) for of, group in groupby(questions, key=lambda question: question.of)
    ]
    calls: list[Call] = []
    parts: list[list[tuple[bytes | None, list[Question]]]] = []
    for part in _parts(groups):
        calls.append(_creation(b"".join(_encoded(of, group) for of, group in part)))
        parts.append(part)
    found: list[Answer] = []
    for part, answer in zip(parts, await node.batch(calls), strict=True):
        found += _decoded(part, data(answer))
    return found


def multicall3(contract: str) -> Way:
    """Asks a contract that passes questions on; it cannot tell whether an account has code."""
    place = bytes.fromhex(contract[2:])

    async def way(node: Node, questions: Sequence[Question]) -> list[Answer]:
        owners = _owners(questions)
        plain = [one for one in questions if one.of is None]
        calls = [
            (one.to, one.data) if one.data is not None else (place, _ETH_BALANCE + _word(one.to))
            for one in plain
        ]
        size = _ANSWER_BYTES // abi.WORD
        parts = [calls[i : i + size] for i in range(0, len(calls), size)]
        asked = [_to(contract, _aggregate(part), CALL_GAS) for part in parts]
        told = await node.batch([*map(_code_of, owners), *asked])
        found: list[tuple[bool, bytes]] = []
        for part, answer in zip(parts, told[len(owners) :], strict=True):
            found += _results(data(answer), len(part))
        found = [(good, told[: one.most]) for one, (good, told) in zip(plain, found, strict=True)]
        # whoever fails inside may only have got too little gas
        failed = [index for index, (good, _) in enumerate(found) if not good]
        if failed:
            again = await node.batch([_call(plain[index]) for index in failed])
            for index, answer in zip(failed, again, strict=True):
                found[index] = _outcome(plain[index], answer)
        return await _guarded(node, questions, told[: len(owners)], found)

    return way


# ---- calls of their own


async def _guarded(
    node: Node,
    questions: Sequence[Question],
    codes: Sequence[Any],
    plain: Sequence[tuple[bool, bytes]],
) -> list[Answer]:
    """All answers, given those to the plain questions; the others are asked alone.

    They are not to share anything: their accounts are not ours.
    """
    coded = {of for of, code in zip(_owners(questions), codes, strict=True) if data(code)}
    asked = [one for one in questions if one.of in coded]
    guarded, others = iter(await _ask_owners(node, asked)), iter(plain)
    found: list[Answer] = []
    for one in questions:
        if one.of is None:
            found.append(next(others))
        else:
            found.append(next(guarded) if one.of in coded else None)
    return found


async def _ask_owners(node: Node, questions: Sequence[Question]) -> list[tuple[bool, bytes]]:
    """The answers of and about accounts with code.

    What such an account answers may be as long as its gas allows, so that only few of them share a
    payload; one that answers more than is read has answered nothing.
    """
    shared = [one for one in questions if one.of != one.to]
    own = [one for one in questions if one.of == one.to]
    first, rest = own[:_OWN_ANSWERS_A_PAYLOAD], own[_OWN_ANSWERS_A_PAYLOAD:]
    parts = [[*shared, *first], *(list(part) for part in _few(rest))]
    told = await asyncio.gather(*(_ask_some(node, part) for part in parts))
    answers = [one for part in told for one in part]
    common, owned = iter(answers[: len(shared)]), iter(answers[len(shared) :])
    return [next(owned) if one.of == one.to else next(common) for one in questions]


def _few(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for start in range(0, len(questions), _OWN_ANSWERS_A_PAYLOAD):
        yield questions[start : start + _OWN_ANSWERS_A_PAYLOAD]


async def _ask_some(node: Node, questions: Sequence[Question]) -> list[tuple[bool, bytes]]:
    """Asks in one payload, and one by one if the answer is too long."""
    try:
        told = await node.batch([_call(one) for one in questions])
    except AnswerTooLarge:
        if len(questions) > 1:
            alone = await asyncio.gather(*(_ask_some(node, [one]) for one in questions))
            return [one for part in alone for one in part]
        if questions[0].of != questions[0].to:
            raise
        return [(False, b"")]
    return list(map(_outcome, questions, told))


def _owners(questions: Sequence[Question]) -> list[bytes]:
    return list(dict.fromkeys(one.of for one in questions if one.of is not None))


def _code_of(account: bytes) -> Call:
    return ("eth_getCode", (_hex(account), LATEST))


def _call(question: Question) -> Call:
    if question.data is None:
        return ("eth_getBalance", (_hex(question.to), LATEST))
    return _to(_hex(question.to), question.data, question.gas)


def _to(contract: str, call: bytes, gas: int) -> Call:
    return ("eth_call", ({"to": contract, "data": _hex(call), "gas": hex(gas)}, LATEST))


def _outcome(question: Question, answer: Any) -> tuple[bool, bytes]:
    """The answer to a call of its own, as a contract would have got it."""
    if question.data is None:
        return True, abi.number(quantity(answer))
    if isinstance(answer, RpcError) and answer.is_revert:
        try:
            return False, data(answer.data)[: question.most]
        except RailUnavailable:
            return False, b""
    return True, data(answer)[: question.most]


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _word(address: bytes) -> bytes:
    return address.rjust(abi.WORD, b"\0")


# ---- the contract that is never deployed


def _creation(questions: bytes) -> Call:
    code = _CODE + abi.number(abi.WORD) + abi.padded(questions)
    return ("eth_call", ({"data": _hex(code), "gas": hex(CALL_GAS)}, LATEST))


def _parts(
    groups: Sequence[tuple[bytes | None, list[Question]]],
) -> Iterator[list[tuple[bytes | None, list[Question]]]]:
    """The questions in parts that one call can ask; what depends on one account stays together.

    The accounts of a part cannot burn what the others need, however many of them try to.
    """
    part: list[tuple[bytes | None, list[Question]]] = []
    asked = told = burnt = 0
    for of, group in groups:
        pieces = (
            [group] if of is not None else [group[i : i + 64] for i in range(0, len(group), 64)]
        )
        for piece in pieces:
            asks = sum(29 + len(one.data or b"") for one in piece) + 29
            tells = sum(4 + one.most for one in piece) + 1
            burns = sum(one.gas for one in piece if one.of == one.to and one.data is not None)
            full = asked + asks > _QUESTION_BYTES or told + tells > _ANSWER_BYTES
            if part and (full or burnt + burns > _STRANGERS_GAS):
                yield part
                part, asked, told, burnt = [], 0, 0, 0
            part.append((of, piece))
            asked += asks
            told += tells
            burnt += burns
    if part:
        yield part


def _encoded(of: bytes | None, group: Sequence[Question]) -> bytes:
    pack = _HEAD.pack
    questions = b"".join(
        pack(_COIN, one.to, 0, 0, 0)
        if one.data is None
        else pack(_CALL, one.to, one.gas, one.most, len(one.data)) + one.data
        for one in group
    )
    return questions if of is None else pack(_GUARD, of, 0, 0, len(questions)) + questions


def _decoded(
    part: Sequence[tuple[bytes | None, Sequence[Question]]], told: bytes
) -> Iterator[Answer]:
    """The answers in what the contract returned; RailUnavailable unless it is exactly they."""
    if told[:1] != b"\x01":
        raise RailUnavailable("the node did not run the code that reads")
    at = 1
    for of, group in part:
        if of is not None:
            at += 1
            if told[at - 1 : at] != b"\x01":
                yield from (None for _ in group)
                continue
        for one in group:
            if one.data is None:
                yield True, told[at : at + abi.WORD]
                at += abi.WORD
                continue
            size = min(int.from_bytes(told[at + 1 : at + 4], "big"), one.most)
            yield told[at : at + 1] == b"\x01", told[at + 4 : at + 4 + size]
            at += 4 + one.most
    if at != len(told):
        raise RailUnavailable("the node cut short what the reading code returned")


# ---- Multicall3


def _aggregate(calls: Sequence[tuple[bytes, bytes]]) -> bytes:
    pieces = [_word(to) + _TRUE + abi.number(3 * abi.WORD) + abi.padded(call) for to, call in calls]
    offsets, at = [], len(calls) * abi.WORD
    for piece in pieces:
        offsets.append(abi.number(at))
        at += len(piece)
    head = _AGGREGATE3 + abi.number(abi.WORD) + abi.number(len(calls))
    return head + b"".join(offsets) + b"".join(pieces)


def _results(told: bytes, count: int) -> Iterator[tuple[bool, bytes]]:
    """The results in what aggregate3 returned; RailUnavailable unless there are so many."""
    if _number(told, 0) != abi.WORD or _number(told, abi.WORD) != count:
        raise RailUnavailable("there is no Multicall3 at its place")
    base = 2 * abi.WORD
    for index in range(count):
        at = base + _number(told, base + index * abi.WORD)
        start = at + _number(told, at + abi.WORD)
        size = _number(told, start)
        content = told[start + abi.WORD : start + abi.WORD + size]
        if len(content) != size:
            raise RailUnavailable("the node cut short what Multicall3 returned")
        yield told[at : at + abi.WORD] != _FAILED, content


def _number(told: bytes, at: int) -> int:
    word = told[at : at + abi.WORD]
    if len(word) != abi.WORD:
        raise RailUnavailable("there is no Multicall3 at its place")
    return int.from_bytes(word, "big")
