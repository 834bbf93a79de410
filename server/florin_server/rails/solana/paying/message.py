"""The message that a wallet signs, and what a wallet may add to it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import MessageV0, from_bytes_versioned, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.chains.solana.limits import PACKET_BYTES

GUARDS_MAX = 4  # what the best known wallet adds: three before the transfer, one behind
GUARD_BYTES_MAX = 512
# instructions of the guard program that only compare: data, a difference, an account, a mint, a
# token account, a stake account, a program, the clock. What writes to its memory accounts, or calls
# another program about trees, is no guard
_ASSERTIONS = frozenset(range(2, 15))
# those that compare one account's balance, size and owner: the relayer may be named in no other
_ACCOUNT_ASSERTIONS = frozenset({4, 5})
_GUARD_ACCOUNTS_MAX = 2  # a difference is one of two accounts

_LAPSES = "florin: good until block "

_Step: TypeAlias = tuple[Pubkey, tuple[Pubkey, ...], bytes]


def compile_message(
    relayer: Pubkey, instructions: Sequence[Instruction], blockhash: Hash
) -> MessageV0:
    """Return the message of a transaction whose fee the relayer pays.

    ValueError if the signed transaction would be longer than clusters take.
    """
    message = MessageV0.try_compile(relayer, list(instructions), [], blockhash)
    if (size := len(base64.b64decode(unsigned(message)))) > PACKET_BYTES:
        raise ValueError(f"a transaction of {size} bytes is longer than {PACKET_BYTES}")
    return message


def lapse_note(last_valid: int) -> Instruction:
    """Tells in a transaction of our own until which block height it can land."""
    return spl.memo(f"{_LAPSES}{last_valid}")


def lapses_at(message: MessageV0) -> int | None:
    """The height in a message's note; None if it has none."""
    program, _, data = _steps(message)[-1]
    text = data.decode(errors="replace")
    height = text.removeprefix(_LAPSES)
    told = program == spl.MEMO and text.startswith(_LAPSES) and height.isdecimal()
    return int(height) if told else None


def unsigned(message: MessageV0) -> str:
    """The transaction with empty signatures, in base64."""
    empty = [Signature.default()] * message.header.num_required_signatures
    return base64.b64encode(bytes(VersionedTransaction.populate(message, empty))).decode()


def stored(message: MessageV0) -> str:
    """A message as text."""
    return base64.b64encode(to_bytes_versioned(message)).decode()


def restored(text: str) -> MessageV0:
    """A message from its text."""
    found = from_bytes_versioned(base64.b64decode(text))
    if not isinstance(found, MessageV0):
        raise TypeError("a stored message is of version 0")
    return found


@dataclass(frozen=True, slots=True)
class WalletBounds:
    """Bounds of what a wallet may change: the compute price, the compute units, added guards."""

    price: int
    units: int
    guards: int = GUARDS_MAX


def acceptable(ours: MessageV0, got: MessageV0, bounds: WalletBounds) -> bool:
    """Return True if a message does what ours does, and nothing else that costs others anything.

    A wallet may set the compute price and the compute units anew, and add guards that compare
    accounts and change none. Of the relayer a guard may read the account itself, nothing else.
    """
    if to_bytes_versioned(ours) == to_bytes_versioned(got):
        return True
    if got.address_table_lookups or got.recent_blockhash != ours.recent_blockhash:
        return False
    signers = ours.header.num_required_signatures
    if (
        got.header.num_required_signatures != signers
        or got.account_keys[:signers] != ours.account_keys[:signers]
    ):
        return False
    expected = _steps(ours)
    if _advances(expected[0]) and _steps(got)[:1] != expected[:1]:
        # it stands for the blockhash only as the first
        return False
    guards = 0
    for step in _steps(got):
        if expected and (step == expected[0] or _is_budget_within(expected[0], step, bounds)):
            expected = expected[1:]
        elif _is_guard(step, relayer=ours.account_keys[0]):
            guards += 1
        else:
            return False
    return not expected and guards <= bounds.guards and _has_same_rights(ours, got)


def _steps(message: MessageV0) -> list[_Step]:
    keys = message.account_keys
    return [
        (
            keys[one.program_id_index],
            tuple(keys[index] for index in bytes(one.accounts)),
            bytes(one.data),
        )
        for one in message.instructions
    ]


def guard_at(message: MessageV0, index: int) -> bool:
    """Return True if an instruction of a message, counted from 0, calls the guard program."""
    steps = _steps(message)
    return 0 <= index < len(steps) and steps[index][0] == spl.LIGHTHOUSE


def _is_budget_within(ours: _Step, got: _Step, bounds: WalletBounds) -> bool:
    """Return True if both set the compute price, or both the units, and theirs is within bounds."""
    if ours[0] != spl.COMPUTE_BUDGET or got[0] != spl.COMPUTE_BUDGET or got[1]:
        return False
    kind, value = got[2][:1], got[2][1:]
    if kind != ours[2][:1]:
        return False
    if kind == spl.COMPUTE_UNIT_PRICE and len(value) == 8:
        return int.from_bytes(value, "little") <= bounds.price
    if kind == spl.COMPUTE_UNIT_LIMIT and len(value) == 4:
        return int.from_bytes(value, "little") <= bounds.units
    return False


def _advances(step: _Step) -> bool:
    return (step[0], step[2]) == (spl.SYSTEM, spl.ADVANCE_NONCE)


def _is_guard(step: _Step, relayer: Pubkey) -> bool:
    program, accounts, data = step
    if program != spl.LIGHTHOUSE or not 0 < len(data) <= GUARD_BYTES_MAX:
        return False
    if data[0] not in _ASSERTIONS or len(accounts) > _GUARD_ACCOUNTS_MAX:
        return False
    # the fee payer may sign and write in every instruction that names it
    return relayer not in accounts or (accounts == (relayer,) and data[0] in _ACCOUNT_ASSERTIONS)


def _has_same_rights(ours: MessageV0, got: MessageV0) -> bool:
    """Return True if no account of ours is writable in one message only, and none was added so."""
    places = {key: index for index, key in enumerate(got.account_keys)}
    if any(
        got.is_maybe_writable(index)
        for key, index in places.items()
        if key not in ours.account_keys
    ):
        return False
    return all(
        key in places and got.is_maybe_writable(places[key]) == ours.is_maybe_writable(index)
        for index, key in enumerate(ours.account_keys)
    )
