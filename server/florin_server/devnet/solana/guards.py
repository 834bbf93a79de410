"""A stand-in for the Lighthouse program, whose instructions wallets add to what they sign.

Its assertions about accounts and token accounts are evaluated here, in the state that the
instructions before them left. The machine then runs the transaction with each guard replaced by an
instruction of the same program that passes, or fails. What the stand-in does not know fails.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.devnet.solana.nonces import AnyMessage

# instructions of the program, by the first byte of their data
ACCOUNT_INFO: Final = 4
ACCOUNT_INFO_MULTI: Final = 5
TOKEN_ACCOUNT: Final = 8
TOKEN_ACCOUNT_MULTI: Final = 9
# its errors; of several assertions the error names the first that fails
UNIMPLEMENTED: Final = 6000
ASSERTION_FAILED: Final = 6001
MULTI_FAILED: Final = 0x1900

_PASSING: Final = b""
_FAILING: Final = b"\xff"
_KNOWN_OWNERS: Final = (spl.SYSTEM, spl.TOKEN, spl.TOKEN_2022)
_LOG_LEVELS: Final = 4
T = TypeVar("T")

_INTEGERS: Final[Sequence[Callable[[int, int], bool]]] = (
    operator.eq,
    operator.ne,
    operator.gt,
    operator.lt,
    operator.ge,
    operator.le,
    lambda actual, expected: actual & expected == expected,
    lambda actual, expected: actual & expected == 0,
)


class _UnsupportedError(Exception):
    """What the stand-in does not know, or cannot read."""


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """A guard that fails: the index of its instruction, and the program's error code."""

    index: int
    code: int


State = Mapping[Pubkey, Account]
Simulate = Callable[[VersionedTransaction], State | None]


def resolve_guards(
    transaction: VersionedTransaction, simulate: Simulate
) -> tuple[VersionedTransaction, GuardFailure | None]:
    """Return the transaction to run, and the guard that fails in it.

    `simulate` returns the accounts of a transaction after it, or None if it fails.
    """
    message = transaction.message
    guards = _guards_of(message)
    for index in guards:
        # what comes later passes for now; what sets the fee counts as always
        state = simulate(_replaced(transaction, guards, passing_from=index))
        if state is None:
            break  # it fails before this guard
        if (code := _error_of(message, index, state)) is not None:
            failing = _replaced(transaction, guards, failing=index)
            return failing, GuardFailure(index, code)
    return _replaced(transaction, guards) if guards else transaction, None


def error_of_guard(error: Any, failure: GuardFailure | None) -> Any:
    """Return an error in Solana's JSON form, with the program's own code if a guard failed."""
    if failure is None or not isinstance(error, dict):
        return error
    index, *_ = error.get("InstructionError", (None,))
    if index != failure.index:
        return error
    return {"InstructionError": [index, {"Custom": failure.code}]}


def _guards_of(message: AnyMessage) -> list[int]:
    if not isinstance(message, Message | MessageV0):
        return []
    keys = message.account_keys
    return [
        index
        for index, one in enumerate(message.instructions)
        if keys[one.program_id_index] == spl.LIGHTHOUSE
    ]


def _replaced(
    transaction: VersionedTransaction,
    guards: Sequence[int],
    *,
    passing_from: int | None = None,
    failing: int | None = None,
) -> VersionedTransaction:
    message = transaction.message
    keys = message.account_keys
    program = keys.index(spl.LIGHTHOUSE)
    instructions = []
    for index, one in enumerate(message.instructions):
        late = passing_from is not None and index >= passing_from
        if index in guards or (late and keys[one.program_id_index] != spl.COMPUTE_BUDGET):
            data = _FAILING if index == failing else _PASSING
            instructions.append(CompiledInstruction(program, data, b""))
        else:
            instructions.append(one)
    if isinstance(message, MessageV0):
        made: AnyMessage = MessageV0(
            message.header,
            keys,
            message.recent_blockhash,
            instructions,
            message.address_table_lookups,
        )
    else:
        header = message.header
        made = Message.new_with_compiled_instructions(
            header.num_required_signatures,
            header.num_readonly_signed_accounts,
            header.num_readonly_unsigned_accounts,
            keys,
            message.recent_blockhash,
            instructions,
        )
    return VersionedTransaction.populate(made, transaction.signatures)


def _error_of(message: AnyMessage, index: int, state: State) -> int | None:
    """Return the code with which a guard fails; None if it passes."""
    one = message.instructions[index]
    keys, accounts, data = message.account_keys, bytes(one.accounts), _Reader(bytes(one.data))
    try:
        kind, level = data.number(1), data.number(1)
        if level >= _LOG_LEVELS or len(accounts) != 1:
            raise _UnsupportedError
        place = accounts[0]
        rights = (message.is_signer(place), _is_writable(message, place))
        account = state.get(keys[place])
        multi = kind in {ACCOUNT_INFO_MULTI, TOKEN_ACCOUNT_MULTI}
        count = data.compact() if multi else 1
        verdicts = []
        for _ in range(count):
            if kind in {ACCOUNT_INFO, ACCOUNT_INFO_MULTI}:
                verdicts.append(_account_info(data, account, rights))
            elif kind in {TOKEN_ACCOUNT, TOKEN_ACCOUNT_MULTI}:
                verdicts.append(_token_account(data, account))
            else:
                raise _UnsupportedError
        data.end()
    except _UnsupportedError:
        return UNIMPLEMENTED
    if all(verdicts):
        return None
    return MULTI_FAILED + verdicts.index(False) if multi else ASSERTION_FAILED


def _is_writable(message: AnyMessage, place: int) -> bool:
    header = message.header
    signers = header.num_required_signatures
    if place < signers:
        return place < signers - header.num_readonly_signed_accounts
    return place < len(message.account_keys) - header.num_readonly_unsigned_accounts


def _account_info(data: _Reader, account: Account | None, rights: tuple[bool, bool]) -> bool:
    """Evaluate one assertion about an account; one that is missing is empty and the system's."""
    lamports, size = (account.lamports, len(bytes(account.data))) if account else (0, 0)
    owner = account.owner if account else spl.SYSTEM
    match data.number(1):
        case 0:
            return data.integer(lamports, 8)
        case 1:
            return data.integer(size, 8)
        case 2:
            return data.equatable(bytes(owner), data.take(32))
        case 3:
            known = data.number(1)
            if known >= len(_KNOWN_OWNERS):
                raise _UnsupportedError
            return data.equatable(owner, _KNOWN_OWNERS[known])
        case 5:
            return data.equatable(rights[0], bool(data.number(1)))
        case 6:
            return data.equatable(rights[1], bool(data.number(1)))
        case 7:
            return data.equatable(bool(account and account.executable), bool(data.number(1)))
        case _:
            raise _UnsupportedError


def _token_account(data: _Reader, account: Account | None) -> bool:
    """Evaluate one assertion about a token account; False for what is none."""
    raw = bytes(account.data) if account and account.owner in spl.PROGRAMS else b""
    raw = raw if spl.token_account(raw) else bytes(spl.ACCOUNT_BYTES)
    match data.number(1):
        case 0:
            return data.equatable(raw[:32], data.take(32))
        case 1:
            return data.equatable(raw[32:64], data.take(32))
        case 2:
            return data.integer(int.from_bytes(raw[64:72], "little"), 8)
        case 3:
            return data.equatable(_key(raw[72:108]), data.optional_key())
        case 4:
            return data.integer(raw[108], 1)
        case 6:
            return data.integer(int.from_bytes(raw[121:129], "little"), 8)
        case 7:
            return data.equatable(_key(raw[129:165]), data.optional_key())
        case _:
            raise _UnsupportedError


def _key(raw: bytes) -> bytes | None:
    """Read a key that may be missing, as token programs write it."""
    return raw[4:] if raw[0] else None


class _Reader:
    """Reads an instruction's data from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, size: int) -> bytes:
        if len(self._data) < size:
            raise _UnsupportedError
        head, self._data = self._data[:size], self._data[size:]
        return head

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def compact(self) -> int:
        """Read a length that fits into one byte."""
        if (count := self.number(1)) > 0x7F:
            raise _UnsupportedError
        return count

    def optional_key(self) -> bytes | None:
        return self.take(32) if self.number(1) else None

    def integer(self, actual: int, size: int) -> bool:
        """Compare with a number and an operator that come next."""
        expected, which = self.number(size), self.number(1)
        if which >= len(_INTEGERS):
            raise _UnsupportedError
        return _INTEGERS[which](actual, expected)

    def equatable(self, actual: T, expected: T) -> bool:
        """Compare by an operator that comes next."""
        which = self.number(1)
        if which > 1:
            raise _UnsupportedError
        return (actual == expected) is (which == 0)

    def end(self) -> None:
        if self._data:
            raise _UnsupportedError
