"""A replacement for the Lighthouse program, whose instructions wallets add before signing.

This module evaluates its assertions about accounts and token accounts, in the state after the
preceding instructions. The machine then runs the transaction with each guard replaced by an
instruction of the program that passes, or fails. Unsupported assertions fail.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from florin_server.domain.chains.solana import spl
from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_sandbox.devnet.solana.nonces import AnyMessage

# instructions of the program, by the first byte of their data
ACCOUNT_INFO: Final = 4
ACCOUNT_INFO_MULTI: Final = 5
TOKEN_ACCOUNT: Final = 8
TOKEN_ACCOUNT_MULTI: Final = 9
# its errors; with several assertions the error names the first that fails
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


class _UnsupportedGuardError(Exception):
    """An assertion that the replacement does not support, or cannot read."""


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """A failing guard: the index of its instruction, and the program's error code."""

    index: int
    code: int


AccountStates = Mapping[Pubkey, Account]
TransactionSimulator = Callable[[VersionedTransaction], AccountStates | None]


def resolve_guards(
    transaction: VersionedTransaction, simulate: TransactionSimulator
) -> tuple[VersionedTransaction, GuardFailure | None]:
    """Return the transaction to run, and the guard that fails in it.

    `simulate` returns the accounts of a transaction after it, or None if it fails.
    """
    message = transaction.message
    guards = _list_guards(message)
    for index in guards:
        # later instructions pass for now; instructions that set the fee always count
        state = simulate(_replace_guards(transaction, guards, first_passing=index))
        if state is None:
            break  # it fails before this guard
        if (code := _find_guard_error(message, index, state)) is not None:
            failing = _replace_guards(transaction, guards, failing_index=index)
            return failing, GuardFailure(index, code)
    return _replace_guards(transaction, guards) if guards else transaction, None


def to_guard_error(error: Any, failure: GuardFailure | None) -> Any:
    """Return an error in Solana's JSON form, with the program's own code if a guard failed."""
    if failure is None or not isinstance(error, dict):
        return error
    index, *_ = error.get("InstructionError", (None,))
    if index != failure.index:
        return error
    return {"InstructionError": [index, {"Custom": failure.code}]}


def _list_guards(message: AnyMessage) -> list[int]:
    if not isinstance(message, Message | MessageV0):
        return []
    keys = message.account_keys
    return [
        index
        for index, compiled_instruction in enumerate(message.instructions)
        if keys[compiled_instruction.program_id_index] == spl.LIGHTHOUSE
    ]


def _replace_guards(
    transaction: VersionedTransaction,
    guards: Sequence[int],
    *,
    first_passing: int | None = None,
    failing_index: int | None = None,
) -> VersionedTransaction:
    message = transaction.message
    keys = message.account_keys
    program = keys.index(spl.LIGHTHOUSE)
    instructions = []
    for index, compiled_instruction in enumerate(message.instructions):
        late = first_passing is not None and index >= first_passing
        if index in guards or (
            late and keys[compiled_instruction.program_id_index] != spl.COMPUTE_BUDGET
        ):
            data = _FAILING if index == failing_index else _PASSING
            instructions.append(CompiledInstruction(program, data, b""))
        else:
            instructions.append(compiled_instruction)
    if isinstance(message, MessageV0):
        message_v0: AnyMessage = MessageV0(
            message.header,
            keys,
            message.recent_blockhash,
            instructions,
            message.address_table_lookups,
        )
    else:
        header = message.header
        message_v0 = Message.new_with_compiled_instructions(
            header.num_required_signatures,
            header.num_readonly_signed_accounts,
            header.num_readonly_unsigned_accounts,
            keys,
            message.recent_blockhash,
            instructions,
        )
    return VersionedTransaction.populate(message_v0, transaction.signatures)


def _find_guard_error(message: AnyMessage, index: int, state: AccountStates) -> int | None:
    """Return the code with which a guard fails; None if it passes."""
    compiled_instruction = message.instructions[index]
    keys, accounts, data = (
        message.account_keys,
        bytes(compiled_instruction.accounts),
        _GuardDataReader(bytes(compiled_instruction.data)),
    )
    try:
        kind, level = data.read_number(1), data.read_number(1)
        if level >= _LOG_LEVELS or len(accounts) != 1:
            raise _UnsupportedGuardError
        place = accounts[0]
        rights = (message.is_signer(place), _is_writable(message, place))
        account = state.get(keys[place])
        multi = kind in {ACCOUNT_INFO_MULTI, TOKEN_ACCOUNT_MULTI}
        count = data.read_compact() if multi else 1
        verdicts = []
        for _ in range(count):
            if kind in {ACCOUNT_INFO, ACCOUNT_INFO_MULTI}:
                verdicts.append(_evaluate_account_info(data, account, rights))
            elif kind in {TOKEN_ACCOUNT, TOKEN_ACCOUNT_MULTI}:
                verdicts.append(_evaluate_token_account(data, account))
            else:
                raise _UnsupportedGuardError
        data.require_end()
    except _UnsupportedGuardError:
        return UNIMPLEMENTED
    if all(verdicts):
        return None
    return MULTI_FAILED + verdicts.index(False) if multi else ASSERTION_FAILED


def _is_writable(message: AnyMessage, index: int) -> bool:
    header = message.header
    signers = header.num_required_signatures
    if index < signers:
        return index < signers - header.num_readonly_signed_accounts
    return index < len(message.account_keys) - header.num_readonly_unsigned_accounts


def _evaluate_account_info(
    data: _GuardDataReader, account: Account | None, rights: tuple[bool, bool]
) -> bool:
    """Evaluate one assertion about an account; a missing account is empty and the system's."""
    lamports, size = (account.lamports, len(bytes(account.data))) if account else (0, 0)
    owner = account.owner if account else spl.SYSTEM
    match data.read_number(1):
        case 0:
            return data.compare_integer(lamports, 8)
        case 1:
            return data.compare_integer(size, 8)
        case 2:
            return data.compare_equatable(bytes(owner), data.read_bytes(32))
        case 3:
            owner_index = data.read_number(1)
            if owner_index >= len(_KNOWN_OWNERS):
                raise _UnsupportedGuardError
            return data.compare_equatable(owner, _KNOWN_OWNERS[owner_index])
        case 5:
            return data.compare_equatable(rights[0], bool(data.read_number(1)))
        case 6:
            return data.compare_equatable(rights[1], bool(data.read_number(1)))
        case 7:
            return data.compare_equatable(
                bool(account and account.executable), bool(data.read_number(1))
            )
        case _:
            raise _UnsupportedGuardError


def _evaluate_token_account(data: _GuardDataReader, account: Account | None) -> bool:
    """Evaluate one assertion about a token account; other accounts count as empty."""
    raw = bytes(account.data) if account and account.owner in spl.PROGRAMS else b""
    raw = raw if spl.parse_token_account(raw) else bytes(spl.ACCOUNT_BYTES)
    match data.read_number(1):
        case 0:
            return data.compare_equatable(raw[:32], data.read_bytes(32))
        case 1:
            return data.compare_equatable(raw[32:64], data.read_bytes(32))
        case 2:
            return data.compare_integer(int.from_bytes(raw[64:72], "little"), 8)
        case 3:
            return data.compare_equatable(_parse_key(raw[72:108]), data.read_optional_key())
        case 4:
            return data.compare_integer(raw[108], 1)
        case 6:
            return data.compare_integer(int.from_bytes(raw[121:129], "little"), 8)
        case 7:
            return data.compare_equatable(_parse_key(raw[129:165]), data.read_optional_key())
        case _:
            raise _UnsupportedGuardError


def _parse_key(raw: bytes) -> bytes | None:
    """Parse an optional key in the format of token programs."""
    return raw[4:] if raw[0] else None


class _GuardDataReader:
    """A reader of an instruction's data, from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_bytes(self, size: int) -> bytes:
        if len(self._data) < size:
            raise _UnsupportedGuardError
        head, self._data = self._data[:size], self._data[size:]
        return head

    def read_number(self, size: int) -> int:
        return int.from_bytes(self.read_bytes(size), "little")

    def read_compact(self) -> int:
        """Read a length that fits into one byte."""
        if (count := self.read_number(1)) > 0x7F:
            raise _UnsupportedGuardError
        return count

    def read_optional_key(self) -> bytes | None:
        return self.read_bytes(32) if self.read_number(1) else None

    def compare_integer(self, actual: int, size: int) -> bool:
        """Compare with the number and the operator that follow."""
        expected, which = self.read_number(size), self.read_number(1)
        if which >= len(_INTEGERS):
            raise _UnsupportedGuardError
        return _INTEGERS[which](actual, expected)

    def compare_equatable(self, actual: T, expected: T) -> bool:
        """Compare by the operator that follows."""
        which = self.read_number(1)
        if which > 1:
            raise _UnsupportedGuardError
        return (actual == expected) is (which == 0)

    def require_end(self) -> None:
        if self._data:
            raise _UnsupportedGuardError
